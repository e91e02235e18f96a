// StepElements: neighbouring elements of each step, on their way from global to shared memory, as a
// thread copies those that it reads itself.
//
// A thread waits for its own copies alone. In shared memory the elements of all threads of a block
// lie side by side, in whole words of 4 bytes, since cp.async copies no less. An odd number of
// two-byte elements is copied with the words that it shares with a neighbour; whether it begins in
// the middle of a word may differ between steps.
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
// Reads n neighbouring elements in shared memory, aligned as their type is if they fill no word.
template <int n>
RNNC_INLINE void read_values(real (&values)[at_least_one(n)], const char* from) {
  if constexpr (n * sizeof(Element) % 4 == 0) {
    Vec<Element, n> vec;
    vec.read(from);
    repeat<n>([&](int i) { values[i] = vec[i]; });
  } else {
    const Element* const elements = reinterpret_cast<const Element*>(from);
    repeat<n>([&](int i) { values[i] = to_real(elements[i]); });
  }
}

// n elements per thread and step, `chunk` steps at once.
template <int n, int chunk>
struct StepElements {
  static constexpr int kUsed = n * static_cast<int>(sizeof(Element));
  static constexpr int kBytes = round_up(kUsed, 4);  // per thread and step
  static constexpr bool kWhole = kUsed == kBytes;    // no word is shared
  static constexpr int kAccess = kWhole ? access_bytes(kBytes) : 4;

  u64 from;      // the address of the next step that is copied
  int64 stride;  // bytes to the step after it
  int skew;      // bytes before the elements of the next step that is read, in its first word
  int turn;      // what changes in `skew` from step to step
  Element first[at_least_one(n)];  // what stands in the place of the first of all steps

  // Begins with the elements at `at`; those of the next step are `step` elements further on.
  RNNC_MEMBER void begin(const Element* at, int64 step) {
    from = reinterpret_cast<u64>(at);
    stride = step * int64{sizeof(Element)};
    skew = static_cast<int>(from & 2);
    turn = static_cast<int>(stride & 2);
  }
  RNNC_MEMBER void begin_first(const Element* at) {
    repeat<n>([&](int i) { first[i] = at[i]; });
  }
  // This thread's part of a step's elements.
  static RNNC_MEMBER char* own(char* area) { return area + threadIdx.x * kBytes; }
  static RNNC_MEMBER const char* own(const char* area) { return area + threadIdx.x * kBytes; }

  // Copies a chunk's elements, those of the first `count` steps, `pitch` bytes apart; step `one`, if
  // it is not negative, gets those of `begin_first` instead.
  RNNC_MEMBER void copy(char* area, int pitch, int count, int one = -1) {
    repeat<chunk>([&](int j) {
      if (j >= count) return;
      char* const to = own(area + j * pitch);
      if (j == one) {
        const int begin = kWhole ? 0 : static_cast<int>(from & 2);
        repeat<n>([&](int i) { reinterpret_cast<Element*>(to + begin)[i] = first[i]; });
      } else {
        const char* const words = reinterpret_cast<const char*>(kWhole ? from : from & ~u64{3});
        repeat<kBytes / kAccess>(
            [&](int i) { cp_async<kAccess>(to + i * kAccess, words + i * kAccess); });
      }
      from += stride;
    });
  }
  // Reads a step's elements, and goes on to the next step.
  RNNC_MEMBER void read(real (&values)[at_least_one(n)], const char* area) {
    read_values<n>(values, own(area) + (kWhole ? 0 : skew));
    skew ^= turn;
  }
};

}  // namespace rnnc::walk
