// The forward's sigmoid, a function object that a cell's equations are given: in bfloat16 on compute
// capability 9.0 a quick one first.
//
// There the tanh's error is 2^-16.5, relative (measured), so that 1/2 plus half a tanh has an absolute
// error of 1.3e-6: digits enough for bfloat16 down to a bound. That is one special function where
// `sigmoid` takes two, and they are what a step of small heads waits for.
#pragma once

namespace rnnc {

constexpr bool kHasQuickSigmoid = kAccuracy == Accuracy::kBfloat16 && __CUDA_ARCH__ == 900;
constexpr float kFarBelowZero = -6;

RNNC_INLINE float quick_sigmoid(float x) {
  return ::fmaf(0.5f, approximate_tanh(0.5f * x), 0.5f);
}

// For arguments above the bound; it notes the lowest.
struct QuickSigmoid {
  float lowest[2] = {0, 0};  // of every other call: two short chains of minima
  int calls = 0;             // a constant, once the equations are inlined
  RNNC_MEMBER float operator()(float x) {
    float& least = lowest[calls++ % 2];
    least = ::fminf(least, x);
    return quick_sigmoid(x);
  }
  RNNC_MEMBER bool far() const { return ::fminf(lowest[0], lowest[1]) < kFarBelowZero; }
};
// For all arguments. Above the bound it returns what the quick one does: an item's result does not
// depend on the other items of its thread.
struct WholeSigmoid {
  RNNC_MEMBER real operator()(real x) const {
    if constexpr (kHasQuickSigmoid) {
      return x < kFarBelowZero ? sigmoid(x) : quick_sigmoid(x);
    } else {
      return sigmoid(x);
    }
  }
};

// items(sigmoid) computes all items of a thread: with the quick sigmoid, and once more, from the same
// inputs, where that got an argument below its bound. NOTE: one branch for all items, since a special
// function of a false predicate takes its turn in the pipe too.
// finish() prepares the results for their way to other threads, each time: a branch ahead of it would
// keep all results back until it is decided.
// Where whole warps call it, all lanes take the branch together: no lane waits for others behind it.
template <bool whole_warps, typename Items, typename Finish>
RNNC_INLINE void with_sigmoid(const Items& items, const Finish& finish) {
  WholeSigmoid whole;
  if constexpr (kHasQuickSigmoid) {
    QuickSigmoid quick;
    items(quick);
    bool far = quick.far();
    if (whole_warps && quick.calls > 0) far = __any_sync(~0u, far);
    finish();
    if (__builtin_expect(far, 0)) {
      items(whole);
      finish();
    }
  } else {
    items(whole);
    finish();
  }
}
template <bool whole_warps, typename Items>
RNNC_INLINE void with_sigmoid(const Items& items) {
  with_sigmoid<whole_warps>(items, [] {});
}

}  // namespace rnnc
