// The part of a statistic of all values, from parts that lanes divide among them.
//
// A lane reads a share of the parts, and lanes join their shares by shuffles. What they join are
// sums, or the largest of two, in which the order of the two does not matter: all find the same.
#pragma once

#include "lib/stages/parts.cuh"

namespace rnnc {

template <int n>
RNNC_INLINE real sum_in_pairs(real (&value)[n]) {
#pragma unroll
  for (int step = 1; step < n; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < n; i += 2 * step) value[i] += value[i + step];
  }
  return value[0];
}

// Makes parts that can be summed. Of moments these are the sum d = s - n r of the distances from the
// reference r, for n values with the sum s, and the sum of the squares of these distances, which is
// larger than that of the distances from their own mean by d * d / n. Of what is relative to the
// largest value of a part, it is what is relative to r, the largest of all.
template <StatisticKind kind, int n>
RNNC_INLINE void refer_to(Part (&parts)[n], real reference) {
  repeat<n>([&](int i) {
    Part& part = parts[i];
    if constexpr (kind == StatisticKind::kMoments) {
      part.first = part.first - part.count * reference;
      part.second = part.second + part.first * part.first * (real(1) / part.count);
    } else if constexpr (kind == StatisticKind::kSoftmax) {
      part.second = moved(part.second, part.first, reference);
    } else if constexpr (kind == StatisticKind::kLargest) {
      part.second = part.first == reference ? part.second : real(0);
    }
  });
}

// The part of `count` values, of which lanes whose indices differ in the bits of `lanes` have n
// parts each. All of these know part `first`, from whose mean distances are taken. NOTE: this keeps
// digits where the mean of all is far from 0: with P parts of as many values the sum of squares is
// at most P + 1 times that of the distances from the mean of all.
template <StatisticKind kind, int lanes, int n>
RNNC_INLINE Part part_of_shares(Part (&share)[n], const Part& first, real count) {
  real reference = 0;
  if constexpr (kind == StatisticKind::kMoments) {
    reference = first.first * (real(1) / first.count);
  } else if constexpr (is_of_largest(kind)) {
    reference = share[0].first;
    repeat<n - 1>([&](int i) { reference = larger(reference, share[i + 1].first); });
    repeat<5>([&](int bit) {
      if (lanes >> bit & 1) {
        reference = larger(reference, __shfl_xor_sync(~0u, reference, 1 << bit));
      }
    });
    reference += real(0);  // one zero: 0 and -0 are as large
  }
  refer_to<kind>(share, reference);
  real sums[n], seconds[n];
  repeat<n>([&](int i) {
    sums[i] = share[i].first;
    seconds[i] = share[i].second;
  });
  Part all = {sum_in_pairs(sums), sum_in_pairs(seconds), count};
  repeat<5>([&](int bit) {
    if (!(lanes >> bit & 1)) return;
    if (!is_of_largest(kind)) all.first += __shfl_xor_sync(~0u, all.first, 1 << bit);
    if (has_second(kind)) all.second += __shfl_xor_sync(~0u, all.second, 1 << bit);
  });
  if constexpr (kind == StatisticKind::kMoments) {
    const real squares = all.second - all.first * all.first * (real(1) / count);
    all.second = squares < real(0) ? real(0) : squares;
    all.first += count * reference;
  } else if constexpr (is_of_largest(kind)) {
    all.first = reference;
  }
  return all;
}

}  // namespace rnnc
