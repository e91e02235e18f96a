// Mathematics on `real`: the functions that the table leaves to its target.
//
// The float versions have no branch and no call, so that a loop over units becomes vector code.
// Their error stays within a few units in the last place over the whole range, infinities and NaN
// come out as the standard library's do. double uses the standard library.
#pragma once

#include "vectors.h"

namespace rnnc {

// A number beyond float: infinite where `real` is one. C++ leaves that conversion undefined.
RNNC_INLINE real literal(double x) {
  return sizeof(real) == sizeof(double) ? real(x) : real(x > 0 ? __builtin_inf() : -__builtin_inf());
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

RNNC_INLINE float abs(float x) { return __builtin_fabsf(x); }
RNNC_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
RNNC_INLINE float sin(float x) { return __builtin_sinf(x); }
RNNC_INLINE float cos(float x) { return __builtin_cosf(x); }
RNNC_INLINE float erf(float x) { return __builtin_erff(x); }

RNNC_INLINE double abs(double x) { return __builtin_fabs(x); }
RNNC_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
RNNC_INLINE double sin(double x) { return __builtin_sin(x); }
RNNC_INLINE double cos(double x) { return __builtin_cos(x); }
RNNC_INLINE double erf(double x) { return __builtin_erf(x); }
RNNC_INLINE double exp(double x) { return __builtin_exp(x); }
RNNC_INLINE double expm1(double x) { return __builtin_expm1(x); }
RNNC_INLINE double log(double x) { return __builtin_log(x); }
RNNC_INLINE double log1p(double x) { return __builtin_log1p(x); }
RNNC_INLINE double tanh(double x) { return __builtin_tanh(x); }
RNNC_INLINE double sigmoid(double x) { return 1 / (1 + exp(-x)); }

RNNC_INLINE float float_of_bits(int32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

RNNC_INLINE int32_t bits_of_float(float value) {
  int32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

// x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, so that k ln 2 is exact enough.
struct Reduced {
  int32_t k;
  float expm1_r;
};

RNNC_INLINE float power_of_two(int32_t k) { return float_of_bits((k + 127) << 23); }

// For |x| < 2^21.
RNNC_INLINE Reduced reduce_exponent(float x) {
  // Added to 1.5 * 2^23 a number is rounded to an integer, which the last bits hold.
  constexpr float kRounding = 12582912.0f;
  const float rounded = x * 1.44269504f + kRounding;
  const float k = rounded - kRounding;
  const float r = (x - k * 0.693145752f) - k * 1.42860682e-6f;
  // Minimax polynomial of (exp(r) - 1 - r) / r^2, error 5e-11, in pairs of terms, which do not wait
  // for each other.
  const float s = r * r;
  const float q = (0.5f + r * 0.1666666716337204f) +
                  s * ((0.04166625440120697f + r * 0.008333264850080013f) +
                       s * (0.0013947257539257407f + r * 0.00019918076577596366f));
  return {bits_of_float(rounded) - 0x4b400000, r + s * q};
}

RNNC_INLINE float exp(float x) {
  // The comparisons let NaN through; beyond the bounds the result is 0 or infinity.
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const Reduced reduced = reduce_exponent(x);
  // 2^k in two factors: k reaches beyond the exponents of one float at both ends.
  const int32_t half = reduced.k >> 1;
  return (1.0f + reduced.expm1_r) * power_of_two(half) * power_of_two(reduced.k - half);
}

RNNC_INLINE float expm1(float x) {
  const float held = x > 60.0f ? 60.0f : (x < -30.0f ? -30.0f : x);
  const Reduced reduced = reduce_exponent(held);
  const float scale = power_of_two(reduced.k);
  const float near = scale * reduced.expm1_r + (scale - 1.0f);
  return x > 60.0f ? exp(x) : near;
}

RNNC_INLINE float sigmoid(float x) {
  // At the bounds 2^k is infinite, or too small to change 1.
  const float held = x > 87.0f ? -87.0f : (x < -89.0f ? 89.0f : -x);
  const Reduced reduced = reduce_exponent(held);
  return 1.0f / ((1.0f + reduced.expm1_r) * power_of_two(reduced.k) + 1.0f);
}

RNNC_INLINE float tanh(float x) {
  const float size = abs(x);
  // Above 0.625 by exp(-2|x|), whose error the 1 absorbs; below it a minimax polynomial of
  // (tanh(x) - x) / x^3 in x^2, error 1.5e-10.
  const Reduced reduced = reduce_exponent(size > 10.0f ? -20.0f : -2.0f * size);
  const float scale = power_of_two(reduced.k);
  const float power = scale + scale * reduced.expm1_r;
  const float large = 1.0f - 2.0f * power / (1.0f + power);
  const float s = size * size, s2 = s * s;
  const float q = (-0.3333333134651184f + s * 0.13333210349082947f) +
                  s2 * ((-0.05394720286130905f + s * 0.021702965721488f) +
                        s2 * (-0.00818266998976469f + s * 0.002147533930838108f));
  const float small = size + size * s * q;
  return __builtin_copysignf(size > 0.625f ? large : small, x);
}

RNNC_INLINE float log(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;  // 2^23
  const int32_t bits = bits_of_float(scaled);
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  const int32_t shifted = bits - 0x3f3504f3;
  const int32_t exponent = shifted >> 23;
  const float m = float_of_bits((shifted & 0x007fffff) + 0x3f3504f3);
  const float e = (float)exponent - (subnormal ? 23.0f : 0.0f);
  const float f = m - 1.0f;
  // Minimax polynomial of (log(1 + f) - f + f^2/2) / f^3, error 8e-10.
  const float q =
      0.3333331048488617f +
      f * (-0.24999985098838806f +
           f * (0.20002305507659912f +
                f * (-0.16669347882270813f +
                     f * (0.14216986298561096f +
                          f * (-0.12381589412689209f +
                               f * (0.1188352033495903f +
                                    f * (-0.11811269074678421f + f * 0.06916491687297821f)))))));
  const float log_m = f - 0.5f * f * f + f * f * f * q;
  const float value = (log_m + e * 1.42860682e-6f) + e * 0.693145752f;
  const float infinity = __builtin_inff();
  const float special = x == 0.0f ? -infinity : (x == infinity ? infinity : __builtin_nanf(""));
  return x > 0.0f && x < infinity ? value : special;
}

RNNC_INLINE float log1p(float x) {
  // For -1 < x < infinity. The rounding of 1 + x is put right to first order.
  const float u = 1.0f + x;
  return log(u) - ((u - 1.0f) - x) / u;
}

}  // namespace rnnc
