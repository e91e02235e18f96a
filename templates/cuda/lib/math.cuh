// Mathematics on `real`: the functions that the table leaves to its target, and sigmoid.
//
// kAccuracy says how exact they are: two-byte elements round away what the hardware's approximations
// leave out, float32 and float64 call CUDA's library.
#pragma once

namespace rnnc {

template <int n>
RNNC_INLINE real power(real x) {
  if constexpr (n == 1) {
    return x;
  } else {
    const real half = power<n / 2>(x);
    return n % 2 ? half * half * x : half * half;
  }
}

RNNC_INLINE float approximate_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RNNC_INLINE float approximate_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RNNC_INLINE float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Relative error 2^-11.
RNNC_INLINE float approximate_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

RNNC_INLINE float exp(float x) {
  return kAccuracy == Accuracy::kExact ? ::expf(x) : approximate_exp2(x * kLog2E);
}
RNNC_INLINE float expm1(float x) {
  return kAccuracy == Accuracy::kExact ? ::expm1f(x) : exp(x) - 1.0f;
}
RNNC_INLINE float log(float x) {
  return kAccuracy == Accuracy::kExact ? ::logf(x) : approximate_log2(x) * kLn2;
}
RNNC_INLINE float log1p(float x) {
  return kAccuracy == Accuracy::kExact ? ::log1pf(x) : log(1.0f + x);
}
RNNC_INLINE float tanh(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return ::tanhf(x);
  } else if constexpr (kAccuracy == Accuracy::kBfloat16) {
    return approximate_tanh(x);
  } else {
    // exp overflows to infinity, whose reciprocal is 0.
    return 1.0f - 2.0f * approximate_reciprocal(1.0f + approximate_exp2(2.0f * kLog2E * x));
  }
}
RNNC_INLINE float sigmoid(float x) {
  if constexpr (kAccuracy == Accuracy::kExact) {
    return 1.0f / (1.0f + ::expf(-x));
  } else if constexpr (kAccuracy == Accuracy::kBfloat16) {
    return 0.5f * approximate_tanh(0.5f * x) + 0.5f;
  } else {
    return approximate_reciprocal(1.0f + approximate_exp2(-kLog2E * x));
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
