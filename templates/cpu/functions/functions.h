// More mathematics on `real`, for cells that call it. A namespace keeps its names apart from those
// of math.h, and from every name of a cell.
#pragma once

#include "math.h"

namespace rnnc::fn {

RNNC_INLINE float floor(float x) { return __builtin_floorf(x); }
RNNC_INLINE float ceil(float x) { return __builtin_ceilf(x); }
RNNC_INLINE float trunc(float x) { return __builtin_truncf(x); }
// To the even number at a tie: the mode of rounding is never changed.
RNNC_INLINE float round(float x) { return __builtin_rintf(x); }
RNNC_INLINE float fmod(float a, float b) { return __builtin_fmodf(a, b); }
RNNC_INLINE float tan(float x) { return __builtin_tanf(x); }
RNNC_INLINE float atan(float x) { return __builtin_atanf(x); }
RNNC_INLINE float atan2(float a, float b) { return __builtin_atan2f(a, b); }
RNNC_INLINE float sinh(float x) { return __builtin_sinhf(x); }
RNNC_INLINE float cosh(float x) { return __builtin_coshf(x); }
RNNC_INLINE float asinh(float x) { return __builtin_asinhf(x); }
RNNC_INLINE float log1p(float x) { return __builtin_log1pf(x); }
RNNC_INLINE float expm1(float x) { return __builtin_expm1f(x); }
RNNC_INLINE float log2(float x) { return __builtin_log2f(x); }
RNNC_INLINE float exp2(float x) { return __builtin_exp2f(x); }
RNNC_INLINE float pow(float a, float b) { return __builtin_powf(a, b); }

RNNC_INLINE double floor(double x) { return __builtin_floor(x); }
RNNC_INLINE double ceil(double x) { return __builtin_ceil(x); }
RNNC_INLINE double trunc(double x) { return __builtin_trunc(x); }
RNNC_INLINE double round(double x) { return __builtin_rint(x); }
RNNC_INLINE double fmod(double a, double b) { return __builtin_fmod(a, b); }
RNNC_INLINE double tan(double x) { return __builtin_tan(x); }
RNNC_INLINE double atan(double x) { return __builtin_atan(x); }
RNNC_INLINE double atan2(double a, double b) { return __builtin_atan2(a, b); }
RNNC_INLINE double sinh(double x) { return __builtin_sinh(x); }
RNNC_INLINE double cosh(double x) { return __builtin_cosh(x); }
RNNC_INLINE double asinh(double x) { return __builtin_asinh(x); }
RNNC_INLINE double log1p(double x) { return __builtin_log1p(x); }
RNNC_INLINE double expm1(double x) { return __builtin_expm1(x); }
RNNC_INLINE double log2(double x) { return __builtin_log2(x); }
RNNC_INLINE double exp2(double x) { return __builtin_exp2(x); }
RNNC_INLINE double pow(double a, double b) { return __builtin_pow(a, b); }

}  // namespace rnnc::fn
