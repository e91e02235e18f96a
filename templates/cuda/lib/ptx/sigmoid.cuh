// The sigmoid that the forward passes to the cell's equations, as a function object.
//
// In bfloat16 on compute capability 9.0, a quick sigmoid is tried first. There the measured
// relative error of tanh.approx is 2^-16.5, so 1/2 + tanh(x/2)/2 has an absolute error of 1.3e-6:
// accurate enough for bfloat16 above a bound. It needs one special function instead of two, and
// special functions limit the step of small heads.
#pragma once

#include "lib/ptx/math.cuh"

namespace rnnc {

constexpr bool kHasQuickSigmoid = kAccuracy == Accuracy::kBfloat16 && __CUDA_ARCH__ == 900;
constexpr float kQuickSigmoidBound = -6;

RNNC_INLINE float quick_sigmoid(float x) { return ::fmaf(0.5f, tanh_approx(0.5f * x), 0.5f); }

// For arguments above the bound; records the lowest argument.
struct QuickSigmoid {
  float lowest[2] = {0, 0};  // of even and of odd calls: two short chains of minima
  int calls = 0;  // a constant once the equations are inlined, unless a condition skips some
  RNNC_MEMBER float operator()(float x) {
    float& least = lowest[calls++ % 2];
    least = ::fminf(least, x);
    return quick_sigmoid(x);
  }
  RNNC_MEMBER bool below_bound() const {
    return ::fminf(lowest[0], lowest[1]) < kQuickSigmoidBound;
  }
};
// For all arguments. Above the bound it equals the quick one: an item's result does not depend on
// the other items of its thread.
struct FullSigmoid {
  RNNC_MEMBER real operator()(real x) const {
    if constexpr (kHasQuickSigmoid) {
      return x < kQuickSigmoidBound ? sigmoid(x) : quick_sigmoid(x);
    } else {
      return sigmoid(x);
    }
  }
};

// Calls items(sigmoid), which computes all items of a thread, with the quick sigmoid, and again
// from the same inputs if an argument was below the bound. NOTE: one branch for all items, because
// a special function whose predicate is false still occupies its pipe. Calls finish() after each,
// which prepares the results for other threads: a branch ahead of it would delay all results until
// it is decided. With full_warps, all lanes of a warp call this and take the branch together.
template <bool full_warps, typename Items, typename Finish>
RNNC_INLINE void with_sigmoid(const Items& items, const Finish& finish) {
  FullSigmoid full;
  if constexpr (kHasQuickSigmoid) {
    QuickSigmoid quick;
    items(quick);
    bool redo = quick.below_bound();
    // NOTE: whether or not this lane has called it: a condition of the equations may skip a call in
    // some lanes, and all of them must vote.
    if (full_warps) redo = __any_sync(~0u, redo);
    finish();
    if (__builtin_expect(redo, 0)) {
      items(full);
      finish();
    }
  } else {
    items(full);
    finish();
  }
}
template <bool full_warps, typename Items>
RNNC_INLINE void with_sigmoid(const Items& items) {
  with_sigmoid<full_warps>(items, [] {});
}

}  // namespace rnnc
