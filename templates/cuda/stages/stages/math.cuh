// Mathematical functions that norms call, in a better form than the table of functions has.
#pragma once

#include "lib/ptx/math.cuh"
#include "lib/stages/rsqrt.cuh"

namespace rnnc {

// Below all numbers: the largest of no values.
RNNC_INLINE real lowest() { return -real(__uint_as_float(0x7f800000u)); }

// In two-byte elements one special function in place of two; its relative error is 2^-22.
RNNC_INLINE float rsqrt(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) return 1.0f / ::sqrtf(x);
  return kRsqrtOfNormals ? rsqrt_of_normal(x) : ::rsqrtf(x);
}
RNNC_INLINE double rsqrt(double x) { return 1.0 / ::sqrt(x); }

// The variance that a norm divides by. The distance of one value from itself is 0, whatever divides
// it. A backward that reads rounded gates finds another distance: divided by infinity, it is 0 too.
RNNC_INLINE real divisor_of(real variance, real count) {
  return count > real(1) ? variance : real(__uint_as_float(0x7f800000u));
}

}  // namespace rnnc
