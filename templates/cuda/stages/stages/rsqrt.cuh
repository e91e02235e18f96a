// The instruction for one over a square root, of arguments that are no subnormal numbers.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// Relative error 2^-22. NOTE: a test for subnormal arguments, and two products, would take as long.
RNNC_INLINE float rsqrt_of_normal(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace rnnc
