// Map: what some steps make of the values that a scan carries from step to step: x becomes A x + b.
// MaxMap: the same of values that become the larger of x + a and b, each by itself. What is added to x
// has more digits than x, as mantissas have.
//
// A column of A is kept as mantissas and one exponent: over many steps it may leave the range of
// `real` where the carried values do not. An entry that is 0 multiplies nothing. Mantissas of
// float32 elements are double: coefficients that are the same at all steps round the same way in
// each product and in each tile, and what a loop loses here and there would add up.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc::scan {

constexpr int kCarried = Form::kCarried, kMaxima = Form::kMaxima;
constexpr int kLinear = kCarried - kMaxima;  // values behind those of maxima
using Carried = real[kCarried];
using Linear = real[at_least_one(kLinear)];
using Maxima = real[at_least_one(kMaxima)];
RNNC_INLINE auto factor_type() {
  if constexpr (sizeof(Element) > 2) return double{};
  if constexpr (sizeof(Element) == 2) return real{};
}
using Factor = decltype(factor_type());
constexpr int kFactorWords = sizeof(Factor) / sizeof(real);  // that are published

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
// What a word leaves of a factor, which may be infinite; and a factor as its words give it.
RNNC_INLINE Factor rest_of(Factor x) {
  const Factor first = static_cast<real>(x);
  return x == first ? Factor(0) : x - first;
}
RNNC_INLINE Factor published(Factor x) {
  const Factor rest = kFactorWords > 1 ? static_cast<real>(rest_of(x)) : real(0);
  return static_cast<real>(x) + rest;
}
RNNC_INLINE Factor magnitude(Factor x) { return x < 0 ? -x : x; }

// The product of two entries. One of 0 is 0 whatever the other is: a value that is not finite stays
// with those that it enters.
RNNC_INLINE Factor product(Factor a, Factor b) {
  return kLinear > 1 && (a == 0 || b == 0) ? Factor(0) : a * b;
}

// Of a column of zeros: below all others, which are not to be moved towards it.
constexpr int kNoExponent = -(1 << 20);

struct Map {
  static constexpr int kFirst = kMaxima, kCount = kLinear;  // of the carried values

  Linear offset;
  Factor column[at_least_one(kLinear)][at_least_one(kLinear)];  // [j]: of a unit of value j
  int exponent[at_least_one(kLinear)];                          // of a column

  // Begins before the first step.
  RNNC_MEMBER void begin() {
    repeat<kLinear>([&](int j) {
      repeat<kLinear>([&](int i) { column[j][i] = i == j; });
      offset[j] = 0;
      exponent[j] = 0;
    });
  }
  // Lets nothing pass if there is a restart among the steps, whatever the columns are by then.
  RNNC_MEMBER void cut(bool restarts) {
    repeat<kLinear>([&](int j) {
      repeat<kLinear>([&](int i) { column[j][i] = restarts ? Factor(0) : column[j][i]; });
      exponent[j] = restarts ? kNoExponent : exponent[j];
    });
  }
  // Keeps mantissas near 1. NOTE: at least every kRescaled steps, whose product must not overflow.
  RNNC_MEMBER void rescale() {
    repeat<kLinear>([&](int j) {
      Factor most = 0;
      repeat<kLinear>([&](int i) {
        const Factor each = magnitude(column[j][i]);
        most = each > most ? each : most;
      });
      const int e = kLinear == 1 ? exponent_of(column[j][0]) : exponent_of(most);
      const Factor factor = power_of_two(Factor{}, -e);
      repeat<kLinear>([&](int i) { column[j][i] *= factor; });
      exponent[j] = kLinear > 1 && most == 0 ? kNoExponent : exponent[j] + e;
    });
  }
  // What it makes of carried values.
  RNNC_MEMBER void apply(Linear& values) const {
    Factor found[at_least_one(kLinear)];
    repeat<kLinear>([&](int i) { found[i] = offset[i]; });
    repeat<kLinear>([&](int j) {
      repeat<kLinear>([&](int i) {
        const Factor part = scaled(column[j][i] * values[j], exponent[j]);
        found[i] += column[j][i] == 0 ? Factor(0) : part;
      });
    });
    repeat<kLinear>([&](int i) { values[i] = static_cast<real>(found[i]); });
  }
  // Rounds mantissas to what is published.
  RNNC_MEMBER void round() {
    repeat<kLinear>([&](int j) {
      repeat<kLinear>([&](int i) { column[j][i] = published(column[j][i]); });
    });
  }
  // Appends a step that follows, whose columns are given.
  RNNC_MEMBER void append_step(const Linear (&of)[at_least_one(kLinear)]) {
    repeat<kLinear>([&](int j) {
      Factor found[at_least_one(kLinear)] = {};
      repeat<kLinear>([&](int k) {
        repeat<kLinear>([&](int i) { found[i] += product(of[k][i], column[j][k]); });
      });
      assign(column[j], found);
    });
  }
  // Appends steps that follow.
  RNNC_MEMBER void append(const Map& next) {
    next.apply(offset);
    repeat<kLinear>([&](int j) {
      int most = -(1 << 30);
      repeat<kLinear>([&](int k) {
        most = column[j][k] == 0 ? most : maximum(most, next.exponent[k]);
      });
      Factor found[at_least_one(kLinear)] = {};
      repeat<kLinear>([&](int k) {
        repeat<kLinear>([&](int i) {
          const Factor part = product(next.column[k][i], column[j][k]);
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

RNNC_INLINE float lowest(float) { return __uint_as_float(0xff800000u); }  // -infinity
RNNC_INLINE double lowest(double) { return __hiloint2double(static_cast<int>(0xfff00000u), 0); }
// The larger of two numbers, and NaN if one is.
RNNC_INLINE real larger(real a, real b) { return a > b ? a : b >= a ? b : a + b; }

struct MaxMap {
  static constexpr int kFirst = 0, kCount = kMaxima;
  Maxima bound;
  Factor shift[at_least_one(kMaxima)];  // -infinity: nothing passes

  RNNC_MEMBER void begin() {
    repeat<kMaxima>([&](int i) {
      bound[i] = lowest(real{});
      shift[i] = 0;
    });
  }
  RNNC_MEMBER void cut(bool restarts) {
    repeat<kMaxima>([&](int i) { shift[i] = restarts ? lowest(Factor{}) : shift[i]; });
  }
  RNNC_MEMBER void append_step(const Maxima& by) {
    repeat<kMaxima>([&](int i) { shift[i] += Factor(by[i]); });
  }
  RNNC_MEMBER void apply(Maxima& values) const {
    repeat<kMaxima>([&](int i) {
      const bool passes = shift[i] != lowest(Factor{});
      const real moved = passes ? static_cast<real>(values[i] + shift[i]) : lowest(real{});
      values[i] = larger(moved, bound[i]);
    });
  }
  RNNC_MEMBER void append(const MaxMap& next) {
    next.apply(bound);
    repeat<kMaxima>([&](int i) { shift[i] += next.shift[i]; });
  }
  RNNC_MEMBER void round() {
    repeat<kMaxima>([&](int i) { shift[i] = published(shift[i]); });
  }
};

}  // namespace rnnc::scan
