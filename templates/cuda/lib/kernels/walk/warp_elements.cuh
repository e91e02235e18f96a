// WarpElements: as StepElements, for a warp whose threads have neighbouring units of one head.
//
// The elements of a step are then neighbours in memory. The lanes divide those of a chunk of steps
// in pieces of 16 bytes, which takes fewer instructions than a copy per thread and step. So a thread
// reads what others have copied: all lanes wait, then meet (`meet`).
#pragma once

#include "lib/kernels/walk/elements.cuh"

namespace rnnc::walk {

template <int n, int chunk>
struct WarpElements {
  static constexpr int kBytes = n * static_cast<int>(sizeof(Element));  // per thread and step
  static constexpr int kPieces = at_least_one(kThreads * kBytes / 16);  // per step
  static constexpr int kCopies = kBytes ? ceil_div(chunk * kPieces, kThreads) : 0;

  u64 from[at_least_one(kCopies)];  // this lane's pieces of the next chunk
  int64 stride;                     // bytes from chunk to chunk
  u64 first;                        // what stands in the place of the first of all steps

  // The step of a piece within its chunk, and its place there, in bytes.
  static RNNC_MEMBER int step_of(int i) { return (i * kThreads + lane()) / kPieces; }
  static RNNC_MEMBER int place_of(int i) { return (i * kThreads + lane()) % kPieces * 16; }
  static RNNC_MEMBER int lane() { return static_cast<int>(threadIdx.x); }
  // Of the first lane, from the address of this one's.
  static RNNC_MEMBER u64 of_warp(const Element* at) {
    return reinterpret_cast<u64>(at - lane() * n);
  }

  // All these are those of StepElements.
  RNNC_MEMBER void begin(const Element* at, int64 step) {
    const int64 bytes = step * int64{sizeof(Element)};
    repeat<kCopies>([&](int i) { from[i] = of_warp(at) + step_of(i) * bytes + place_of(i); });
    stride = chunk * bytes;
  }
  RNNC_MEMBER void begin_first(const Element* at) { first = of_warp(at); }
  RNNC_MEMBER void copy(char* area, int pitch, int count, int one = -1) {
    repeat<kCopies>([&](int i) {
      const int step = step_of(i);
      if (step < minimum(count, chunk)) {
        const u64 address = step == one ? first + place_of(i) : from[i];
        cp_async<16>(area + step * pitch + place_of(i), reinterpret_cast<const char*>(address));
      }
      from[i] += stride;
    });
  }
  RNNC_MEMBER void read(real (&values)[at_least_one(n)], const char* area) {
    read_values<n>(values, area + lane() * kBytes);
  }
};

template <bool whole_warps, int n, int chunk>
RNNC_INLINE auto elements_of() {
  if constexpr (whole_warps) {
    return WarpElements<n, chunk>{};
  } else {
    return StepElements<n, chunk>{};
  }
}
// The one or the other.
template <bool whole_warps, int n, int chunk>
using Elements = decltype(elements_of<whole_warps, n, chunk>());

// All lanes have come here: what each of them has copied or read is done for the others too.
template <bool whole_warps>
RNNC_INLINE void meet() {
  if constexpr (whole_warps) __syncwarp();
}

}  // namespace rnnc::walk
