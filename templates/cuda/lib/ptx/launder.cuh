// Hints to the compiler: values that it must not recompute, and a limit on the loads that it moves.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// The same value, whose origin the compiler cannot see: it is computed here and kept, not
// recomputed at each use.
RNNC_INLINE int launder(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
RNNC_INLINE u32 launder(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}
RNNC_INLINE int64 launder(int64 x) {
  asm volatile("" : "+l"(x));
  return x;
}
RNNC_INLINE float launder(float x) {
  asm volatile("" : "+f"(x));
  return x;
}
RNNC_INLINE const char* launder(const char* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

// The same value, pinned in a register. NOTE: a shuffle, because ptxas recomputes in every step
// whatever it can derive: even the thread's index, which takes 20 cycles.
RNNC_INLINE int pin(int x) { return __shfl_sync(~0u, x, threadIdx.x & 31); }
RNNC_INLINE u32 pin(u32 x) { return __shfl_sync(~0u, x, threadIdx.x & 31); }

// A barrier that no load is moved across. Between loads of weights it bounds how many are in
// flight, and so how many addresses need a register. The threads do not need it.
RNNC_INLINE void limit_loads_in_flight() { __syncthreads(); }

}  // namespace rnnc
