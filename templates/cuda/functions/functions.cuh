// More mathematics on `real`, for cells that call it. A namespace keeps its names apart from those
// of math.cuh, and from every name of a cell. All dtypes take CUDA's library: two-byte elements
// compute in float and round once.
#pragma once

#include "lib/ptx/math.cuh"

namespace rnnc::fn {

RNNC_INLINE float floor(float x) { return ::floorf(x); }
RNNC_INLINE float ceil(float x) { return ::ceilf(x); }
RNNC_INLINE float trunc(float x) { return ::truncf(x); }
// To the even number at a tie: the mode of rounding is never changed.
RNNC_INLINE float round(float x) { return ::rintf(x); }
RNNC_INLINE float fmod(float a, float b) { return ::fmodf(a, b); }
RNNC_INLINE float tan(float x) { return ::tanf(x); }
RNNC_INLINE float atan(float x) { return ::atanf(x); }
RNNC_INLINE float atan2(float a, float b) { return ::atan2f(a, b); }
RNNC_INLINE float sinh(float x) { return ::sinhf(x); }
RNNC_INLINE float cosh(float x) { return ::coshf(x); }
RNNC_INLINE float asinh(float x) { return ::asinhf(x); }
RNNC_INLINE float log1p(float x) { return ::log1pf(x); }
RNNC_INLINE float expm1(float x) { return ::expm1f(x); }
RNNC_INLINE float log2(float x) { return ::log2f(x); }
RNNC_INLINE float exp2(float x) { return ::exp2f(x); }
RNNC_INLINE float pow(float a, float b) { return ::powf(a, b); }

RNNC_INLINE double floor(double x) { return ::floor(x); }
RNNC_INLINE double ceil(double x) { return ::ceil(x); }
RNNC_INLINE double trunc(double x) { return ::trunc(x); }
RNNC_INLINE double round(double x) { return ::rint(x); }
RNNC_INLINE double fmod(double a, double b) { return ::fmod(a, b); }
RNNC_INLINE double tan(double x) { return ::tan(x); }
RNNC_INLINE double atan(double x) { return ::atan(x); }
RNNC_INLINE double atan2(double a, double b) { return ::atan2(a, b); }
RNNC_INLINE double sinh(double x) { return ::sinh(x); }
RNNC_INLINE double cosh(double x) { return ::cosh(x); }
RNNC_INLINE double asinh(double x) { return ::asinh(x); }
RNNC_INLINE double log1p(double x) { return ::log1p(x); }
RNNC_INLINE double expm1(double x) { return ::expm1(x); }
RNNC_INLINE double log2(double x) { return ::log2(x); }
RNNC_INLINE double exp2(double x) { return ::exp2(x); }
RNNC_INLINE double pow(double a, double b) { return ::pow(a, b); }

}  // namespace rnnc::fn
