// The clock of a multiprocessor.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

RNNC_INLINE u32 cycles() {
  u32 now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

}  // namespace rnnc
