// Parts of a statistic: what is known of some of a head's values. Parts are added in a fixed order,
// so that the same values always give the same numbers.
//
// A mean and the squared distances from it are combined as Chan, Golub and LeVeque do (1979): sums
// of squares would lose the variance of values that are far from 0.
#pragma once

#include "lib/ptx/math.cuh"
#include "lib/ptx/types.cuh"
#include "lib/stages/tables.cuh"

namespace rnnc {

// Two numbers of `count` values: their sum; the largest of them, and how many are as large; the
// largest, and the sum of exp(x - largest); or the mean, and the sum of squared distances from it.
struct Part {
  real first, second, count;
};

RNNC_INLINE real lowest() { return -real(__uint_as_float(0x7f800000u)); }
// NaN if one of the two is.
RNNC_INLINE real larger(real x, real y) { return x > y || x != x ? x : y; }

// Of no value, and of one.
template <StatisticKind kind>
RNNC_INLINE Part no_part() {
  constexpr bool of_largest = kind == StatisticKind::kLargest || kind == StatisticKind::kSoftmax;
  return {of_largest ? lowest() : real(0), real(0), real(0)};
}
template <StatisticKind kind>
RNNC_INLINE Part part_of(real x) {
  constexpr bool of_largest = kind == StatisticKind::kLargest || kind == StatisticKind::kSoftmax;
  return {x, of_largest ? real(1) : real(0), real(1)};
}

// A sum of exp(x - from) as one of exp(x - to).
RNNC_INLINE real moved(real sum, real from, real to) {
  return sum == real(0) ? real(0) : sum * exp(from - to);
}

template <StatisticKind kind>
RNNC_INLINE void add_part(Part& to, const Part& other) {
  const real count = to.count + other.count;
  if constexpr (kind == StatisticKind::kLargest) {
    const real most = larger(to.first, other.first);
    to.second = (to.first == most ? to.second : real(0)) +
                (other.first == most ? other.second : real(0));
    to.first = most;
  } else if constexpr (kind == StatisticKind::kSoftmax) {
    const real most = larger(to.first, other.first);
    to.second = moved(to.second, to.first, most) + moved(other.second, other.first, most);
    to.first = most;
  } else if constexpr (kind == StatisticKind::kMoments) {
    const real share = count > real(0) ? other.count / count : real(0);
    const real distance = other.first - to.first;
    to.second += other.second + distance * distance * (to.count * share);
    to.first += distance * share;
  } else {
    to.first += other.first;
  }
  to.count = count;
}

// The numbers of a statistic from the part of all its values.
template <StatisticKind kind>
RNNC_INLINE void set_numbers(real* to, const Part& all) {
  if constexpr (kind == StatisticKind::kMean) {
    to[0] = all.first / all.count;
  } else if constexpr (kind == StatisticKind::kTotal) {
    to[0] = all.first;
  } else if constexpr (kind == StatisticKind::kLargest) {
    to[0] = all.first;
    to[1] = all.second;
  } else if constexpr (kind == StatisticKind::kMoments) {
    to[0] = all.first;
    to[1] = all.second / all.count;
  } else {
    to[0] = all.second;
    to[1] = all.first;
  }
}

}  // namespace rnnc
