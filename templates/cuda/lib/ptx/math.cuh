// Mathematical functions on `real` that the generated pointwise functions call.
//
// kAccuracy selects their accuracy: float32 and float64 call CUDA's library. Two-byte elements use
// hardware approximations whose relative error is far below the rounding of the element. The forms
// below keep the relative error small near zero too.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// A constant that may exceed float, and is infinite then. C++ leaves that conversion undefined.
RNNC_INLINE real literal(double x) {
  return sizeof(real) == sizeof(double) ? real(x)
                                        : real(x > 0 ? __longlong_as_double(0x7ff0000000000000ll)
                                                     : -__longlong_as_double(0x7ff0000000000000ll));
}

template <int n>
RNNC_INLINE real power(real x) {
  if constexpr (n == 1) {
    return x;
  } else {
    const real half = power<n / 2>(x);
    return n % 2 ? half * half * x : half * half;
  }
}

RNNC_INLINE float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RNNC_INLINE float lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RNNC_INLINE float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Relative error 2^-11.
RNNC_INLINE float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

RNNC_INLINE float exp(float x) {
  return kAccuracy == Accuracy::kExact ? ::expf(x) : ex2_approx(x * kLog2E);
}
// exp(x) - 1 and log(1 + x) cancel where x is small; there the series is used.
RNNC_INLINE float expm1(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return ::expm1f(x);
  } else {
    const float series = x + x * x * (0.5f + x * (1.0f / 6 + x * (1.0f / 24)));
    return ::fabsf(x) < 0.125f ? series : exp(x) - 1.0f;
  }
}
RNNC_INLINE float log1p_series(float x) { return x - x * x * (0.5f - x * (1.0f / 3 - x * 0.25f)); }
RNNC_INLINE float log(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return ::logf(x);
  } else {
    // Near 1 the approximation has an absolute error; x - 1 is exact.
    const float above = x - 1.0f;
    return ::fabsf(above) < 0.0625f ? log1p_series(above) : lg2_approx(x) * kLn2;
  }
}
RNNC_INLINE float log1p(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return ::log1pf(x);
  } else {
    return ::fabsf(x) < 0.0625f ? log1p_series(x) : lg2_approx(1.0f + x) * kLn2;
  }
}
RNNC_INLINE float tanh(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return ::tanhf(x);
  } else if constexpr (kAccuracy == Accuracy::kBfloat16) {
    return tanh_approx(x);
  } else {
    // exp overflows to infinity, whose reciprocal is 0. Near 0 the difference cancels.
    const float square = x * x;
    const float series = x + x * square * (-1.0f / 3 + square * (2.0f / 15));
    const float other = 1.0f - 2.0f * rcp_approx(1.0f + exp(2.0f * x));
    return ::fabsf(x) < 0.125f ? series : other;
  }
}
// With e = exp(-|x|): e / (1 + e) for x < 0 and 1 - e / (1 + e) otherwise. Both tails stay
// accurate, so the slope y * (1 - y) and log(y) do too.
RNNC_INLINE float sigmoid(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return 1.0f / (1.0f + ::expf(-x));
  } else if constexpr (kAccuracy == Accuracy::kBfloat16) {
    // e / (1 + e) = half - half * tanh(-|x| / 2) with half = e / 2: the two special functions are
    // independent, and one operation follows the tanh.
    const float half = ex2_approx(::fmaf(::fabsf(x), -kLog2E, -1.0f));
    const float at_zero = x < 0.0f ? half : 1.0f - half;
    return ::fmaf(-half, tanh_approx(0.5f * x), at_zero);
  } else {
    const float e = ex2_approx(-kLog2E * ::fabsf(x));
    const float small = e * rcp_approx(1.0f + e);
    return x < 0.0f ? small : 1.0f - small;
  }
}
RNNC_INLINE float abs(float x) { return ::fabsf(x); }
RNNC_INLINE float sqrt(float x) { return ::sqrtf(x); }
RNNC_INLINE float sin(float x) { return ::sinf(x); }
RNNC_INLINE float cos(float x) { return ::cosf(x); }
RNNC_INLINE float erf(float x) { return ::erff(x); }

RNNC_INLINE double exp(double x) { return ::exp(x); }
RNNC_INLINE double expm1(double x) { return ::expm1(x); }
RNNC_INLINE double log(double x) { return ::log(x); }
RNNC_INLINE double log1p(double x) { return ::log1p(x); }
RNNC_INLINE double tanh(double x) { return ::tanh(x); }
RNNC_INLINE double sigmoid(double x) { return 1.0 / (1.0 + ::exp(-x)); }
RNNC_INLINE double abs(double x) { return ::fabs(x); }
RNNC_INLINE double sqrt(double x) { return ::sqrt(x); }
RNNC_INLINE double sin(double x) { return ::sin(x); }
RNNC_INLINE double cos(double x) { return ::cos(x); }
RNNC_INLINE double erf(double x) { return ::erf(x); }

}  // namespace rnnc
