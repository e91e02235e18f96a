// StepElements: neighbouring elements of each step, on their way from global to shared memory.
//
// A thread copies what it reads itself, so its own wait for the copies is enough. In shared memory
// the elements of all threads of a block lie side by side, in whole words of 4 bytes, since
// cp.async copies no less. An odd number of two-byte elements is copied with the words that it
// shares with a neighbour; whether it begins in the middle of a word may differ between steps.
#pragma once

#include "lib/kernels/walk/channel.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc::walk {

// Stores n values as neighbouring elements.
template <int n>
RNNC_INLINE void store_values(Element* to, const real (&values)[at_least_one(n)]) {
  Vec<Element, n> vec;
  vec.set(values);
  vec.store(to);
}

template <int n>
struct StepElements {
  static constexpr int kUsed = n * static_cast<int>(sizeof(Element));
  static constexpr int kBytes = round_up(kUsed, 4);  // per thread and step
  static constexpr bool kWhole = kUsed == kBytes;    // no word is shared
  static constexpr int kAccess = kWhole ? access_bytes(kBytes) : 4;

  u64 from;      // the address of the next step that is copied
  int64 stride;  // bytes to the step after it
  int skew;      // bytes before the elements of the next step that is read, in its first word
  int turn;      // what changes in `skew` from step to step

  // Begins with the elements at `first`; those of the next step are `step` elements further on.
  RNNC_MEMBER void begin(const Element* first, int64 step) {
    from = reinterpret_cast<u64>(first);
    stride = step * int64{sizeof(Element)};
    skew = static_cast<int>(from & 2);
    turn = static_cast<int>(stride & 2);
  }
  // This thread's part of those of a block.
  static RNNC_MEMBER char* own(char* slot) { return slot + threadIdx.x * kBytes; }
  static RNNC_MEMBER const char* own(const char* slot) { return slot + threadIdx.x * kBytes; }

  // Copies a step's elements, if it has any, and goes on to the next step.
  RNNC_MEMBER void copy(char* slot, bool has_any = true) {
    if (has_any) {
      const char* const words = reinterpret_cast<const char*>(kWhole ? from : from & ~u64{3});
      repeat<kBytes / kAccess>([&](int i) {
        cp_async<kAccess>(own(slot) + i * kAccess, words + i * kAccess);
      });
    }
    from += stride;
  }
  // Writes these elements as those of a step, and goes on to the next one.
  RNNC_MEMBER void put(char* slot, const Element (&values)[at_least_one(n)]) {
    const int begin = kWhole ? 0 : static_cast<int>(from & 2);
    repeat<n>([&](int i) { reinterpret_cast<Element*>(own(slot) + begin)[i] = values[i]; });
    from += stride;
  }
  // Reads a step's elements, and goes on to the next step.
  RNNC_MEMBER void read(real (&values)[at_least_one(n)], const char* slot) {
    if constexpr (kWhole) {
      Vec<Element, n> vec;
      vec.read(own(slot));
      repeat<n>([&](int i) { values[i] = vec[i]; });
    } else {
      const Element* const elements = reinterpret_cast<const Element*>(own(slot) + skew);
      repeat<n>([&](int i) { values[i] = to_real(elements[i]); });
      skew ^= turn;
    }
  }
};

}  // namespace rnnc::walk
