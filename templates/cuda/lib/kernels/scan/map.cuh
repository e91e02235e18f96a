// Map: what some steps make of the values that a scan carries from step to step: x becomes A x + b.
//
// A column of A is kept as mantissas and one exponent: over many steps it may leave the range of
// `real` where the carried values do not. An entry that is 0 multiplies nothing. Mantissas of
// float32 elements are double: coefficients that are the same at all steps round the same way in
// each product, and what a loop loses here and there would add up.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc::scan {

constexpr int kCarried = Form::kCarried;
using Carried = real[kCarried];
RNNC_INLINE auto factor_type() {
  if constexpr (sizeof(Element) > 2) return double{};
  if constexpr (sizeof(Element) == 2) return real{};
}
using Factor = decltype(factor_type());

// The exponent of a number, within bounds that `power_of_two` takes, and 2^e. A float's mantissa is
// then below 1, so that it multiplies any float.
RNNC_INLINE int exponent_of(float x) {
  return minimum(static_cast<int>(__float_as_uint(x) >> 23 & 255) - 126, 126);
}
RNNC_INLINE int exponent_of(double x) {
  return minimum((__double2hiint(x) >> 20 & 2047) - 1023, 1022);
}
RNNC_INLINE float power_of_two(float, int e) {
  return __uint_as_float(static_cast<u32>(e + 127) << 23);
}
RNNC_INLINE double power_of_two(double, int e) { return __hiloint2double((e + 1023) << 20, 0); }
// x * 2^e, in two factors: e reaches beyond the exponents of one.
RNNC_INLINE Factor scaled(Factor x, int e) {
  constexpr int kMost = sizeof(Factor) == 8 ? 2044 : 252;
  e = minimum(maximum(e, -kMost), kMost);
  const int half = e / 2;
  return x * power_of_two(Factor{}, half) * power_of_two(Factor{}, e - half);
}
RNNC_INLINE u32 bits_of(float x) { return __float_as_uint(x); }
RNNC_INLINE u32 bits_of(double x) { return static_cast<u32>(__double2hiint(x)); }
RNNC_INLINE Factor magnitude(Factor x) { return x < 0 ? -x : x; }

struct Map {
  Carried offset;
  Factor column[kCarried][kCarried];  // [j]: what a unit of value j becomes
  int exponent[kCarried];             // of a column

  // Begins before the first step.
  RNNC_MEMBER void begin() {
    repeat<kCarried>([&](int j) {
      repeat<kCarried>([&](int i) { column[j][i] = i == j; });
      offset[j] = 0;
      exponent[j] = 0;
    });
  }
  // Lets nothing pass that comes from before a restart.
  RNNC_MEMBER void cut(bool restarts) {
    repeat<kCarried>([&](int j) {
      repeat<kCarried>([&](int i) { column[j][i] = restarts ? Factor(0) : column[j][i]; });
    });
  }
  // Keeps mantissas near 1. NOTE: at least every kRescaled steps, whose product must not overflow.
  RNNC_MEMBER void rescale() {
    repeat<kCarried>([&](int j) {
      Factor most = 0;
      repeat<kCarried>([&](int i) {
        const Factor each = magnitude(column[j][i]);
        most = each > most ? each : most;
      });
      const int e = kCarried == 1 ? exponent_of(column[j][0]) : exponent_of(most);
      const Factor factor = power_of_two(Factor{}, -e);
      repeat<kCarried>([&](int i) { column[j][i] *= factor; });
      exponent[j] += e;
    });
  }
  // What it makes of carried values.
  RNNC_MEMBER void apply(Carried& values) const {
    Factor found[kCarried];
    repeat<kCarried>([&](int i) { found[i] = offset[i]; });
    repeat<kCarried>([&](int j) {
      repeat<kCarried>([&](int i) {
        const Factor part = scaled(column[j][i] * values[j], exponent[j]);
        found[i] += column[j][i] == 0 ? Factor(0) : part;
      });
    });
    repeat<kCarried>([&](int i) { values[i] = static_cast<real>(found[i]); });
  }
  // Rounds mantissas to what is published.
  RNNC_MEMBER void round() {
    repeat<kCarried>([&](int j) {
      repeat<kCarried>([&](int i) { column[j][i] = static_cast<real>(column[j][i]); });
    });
  }
  // Appends a step that follows, whose columns are given.
  RNNC_MEMBER void append_step(const Carried (&of)[kCarried]) {
    repeat<kCarried>([&](int j) {
      Factor found[kCarried] = {};
      repeat<kCarried>([&](int k) {
        repeat<kCarried>([&](int i) { found[i] += of[k][i] * column[j][k]; });
      });
      assign(column[j], found);
    });
  }
  // Appends steps that follow.
  RNNC_MEMBER void append(const Map& next) {
    next.apply(offset);
    repeat<kCarried>([&](int j) {
      int most = -(1 << 30);
      repeat<kCarried>([&](int k) {
        most = column[j][k] == 0 ? most : maximum(most, next.exponent[k]);
      });
      Factor found[kCarried] = {};
      repeat<kCarried>([&](int k) {
        repeat<kCarried>([&](int i) {
          const Factor part = next.column[k][i] * column[j][k];
          found[i] += part == 0 ? Factor(0) : scaled(part, next.exponent[k] - most);
        });
      });
      assign(column[j], found);
      exponent[j] += most < -(1 << 29) ? 0 : most;
    });
    rescale();
  }
};
// Four coefficients of float32 elements fit a double.
constexpr int kRescaled = sizeof(Factor) > sizeof(real) ? 4 : 1;

}  // namespace rnnc::scan
