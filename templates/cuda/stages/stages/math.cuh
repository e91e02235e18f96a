// Mathematical functions that norms call, in a better form than the table of functions has.
#pragma once

#include "lib/ptx/math.cuh"

namespace rnnc {

// In two-byte elements one special function in place of two; its relative error is 2^-22.
RNNC_INLINE float rsqrt(float x) {
  return kAccuracy == Accuracy::kExact ? 1.0f / ::sqrtf(x) : ::rsqrtf(x);
}
RNNC_INLINE double rsqrt(double x) { return 1.0 / ::sqrt(x); }

}  // namespace rnnc
