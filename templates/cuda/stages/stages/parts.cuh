// Parts of a statistic: what is known of some of a head's values. Parts are added in a fixed order,
// so that the same values always give the same numbers.
//
// A sum and the squared distances from the mean are combined as Chan, Golub and LeVeque do (1979):
// sums of squares would lose the variance of values that are far from 0.
#pragma once

#include "lib/ptx/math.cuh"
#include "lib/ptx/types.cuh"
#include "lib/stages/math.cuh"
#include "lib/stages/tables.cuh"

namespace rnnc {

// Two numbers of `count` values: their sum; the largest of them, and how many are as large; the
// largest, and the sum of exp(x - largest); or their sum, and the sum of squared distances from the
// mean.
struct Part {
  real first, second, count;
};

// NaN if one of the two is.
RNNC_INLINE real larger(real x, real y) { return x > y || x != x ? x : y; }

RNNC_CONSTEXPR bool is_of_largest(StatisticKind kind) {
  return kind == StatisticKind::kLargest || kind == StatisticKind::kSoftmax;
}
// Whether the second number says anything.
RNNC_CONSTEXPR bool has_second(StatisticKind kind) {
  return kind != StatisticKind::kMean && kind != StatisticKind::kTotal;
}

// Of no value, and of one.
template <StatisticKind kind>
RNNC_INLINE Part no_part() {
  return {is_of_largest(kind) ? lowest() : real(0), real(0), real(0)};
}
template <StatisticKind kind>
RNNC_INLINE Part part_of(real x) {
  return {x, is_of_largest(kind) ? real(1) : real(0), real(1)};
}

// A sum of exp(x - from) as one of exp(x - to).
RNNC_INLINE real moved(real sum, real from, real to) {
  return sum == real(0) ? real(0) : sum * exp(from - to);
}

// Adds a part to another. The compiler knows counts that are the same everywhere.
template <StatisticKind kind>
RNNC_INLINE void add_part(Part& to, const Part& other) {
  const real count = to.count + other.count;
  if constexpr (is_of_largest(kind)) {
    const real most = larger(to.first, other.first);
    if constexpr (kind == StatisticKind::kSoftmax) {
      to.second = moved(to.second, to.first, most) + moved(other.second, other.first, most);
    } else {
      to.second = (to.first == most ? to.second : real(0)) +
                  (other.first == most ? other.second : real(0));
    }
    to.first = most;
  } else if constexpr (kind == StatisticKind::kMoments) {
    // The distance of the means times a number, and the square of that number over their weight.
    const bool equal = to.count == other.count;
    const real distance =
        equal ? to.first - other.first : to.first * other.count - other.first * to.count;
    const real square = equal ? count : to.count * other.count * count;
    const real share = square > real(0) ? real(1) / square : real(0);
    to.second = to.second + other.second + distance * distance * share;
    to.first += other.first;
  } else {
    to.first += other.first;
  }
  to.count = count;
}

// The part of the values of n parts, added in pairs: a chain of additions would take longer.
template <StatisticKind kind, int n>
RNNC_INLINE Part united(Part (&parts)[n]) {
#pragma unroll
  for (int step = 1; step < n; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < n; i += 2 * step) add_part<kind>(parts[i], parts[i + step]);
  }
  return parts[0];
}

// The part that the lane with another `bit` of its index gives. If not `counted`, it is of as many
// values, and the compiler knows how many.
template <StatisticKind kind, bool counted>
RNNC_INLINE Part part_across(const Part& given, int bit) {
  Part other = given;
  other.first = __shfl_xor_sync(~0u, given.first, 1 << bit);
  if (has_second(kind)) other.second = __shfl_xor_sync(~0u, given.second, 1 << bit);
  if (counted) other.count = __shfl_xor_sync(~0u, given.count, 1 << bit);
  return other;
}
// The part of the values of all lanes whose indices differ in the bits of `lanes`.
template <StatisticKind kind, int lanes, bool counted>
RNNC_INLINE Part part_of_lanes(Part part) {
  repeat<5>([&](int bit) {
    if (lanes >> bit & 1) add_part<kind>(part, part_across<kind, counted>(part, bit));
  });
  return part;
}
// The first step of that for two rows at once: a lane goes on with the second row if the lowest bit
// of `lanes` is set in its index. The order of addition is that of a single row.
template <StatisticKind kind, int lanes, bool counted>
RNNC_INLINE Part part_of_own_row(const Part (&row)[2], bool second) {
  constexpr int bit = lanes & 1 ? 0 : lanes & 2 ? 1 : 2;
  static_assert(lanes >> bit & 1, "one of the lowest bits");
  const auto pick = [](bool first, const Part& a, const Part& b) -> Part {
    return {first ? a.first : b.first, first ? a.second : b.second, first ? a.count : b.count};
  };
  const Part own = pick(second, row[1], row[0]);
  const Part other = part_across<kind, counted>(pick(second, row[0], row[1]), bit);
  Part to = pick(second, other, own);
  add_part<kind>(to, pick(second, own, other));
  return to;
}

// The numbers of a statistic from the part of all its values.
template <StatisticKind kind>
RNNC_INLINE void set_numbers(real* to, const Part& all) {
  const real share = real(1) / all.count;
  if constexpr (kind == StatisticKind::kMean) {
    to[0] = all.first * share;
  } else if constexpr (kind == StatisticKind::kTotal) {
    to[0] = all.first;
  } else if constexpr (kind == StatisticKind::kLargest) {
    to[0] = all.first;
    to[1] = all.second;
  } else if constexpr (kind == StatisticKind::kMoments) {
    to[0] = all.first * share;
    to[1] = divisor_of(all.second * share, all.count);
  } else {
    to[0] = all.second;
    to[1] = all.first;
  }
}

}  // namespace rnnc
