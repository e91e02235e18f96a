// A clock that is late for everything: nobody waits for it.
#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
inline u32 cycles() {
  static thread_local u32 now = 0;
  return now += 1u << 20;
}
}  // namespace rnnc
