// Numbers of a head from values of its units, by the block that has all of them: each sum has one
// order, whatever else runs.
//
// All statistics of a stage share two passes over the values, and an exchange after each: the first
// gives sums and largest values, the second what needs them.
#pragma once

#include "lib/ptx/math.cuh"
#include "lib/stages/alternating/workspace.cuh"
#include "lib/stages/math.cuh"

namespace rnnc::alternating {

constexpr int kBlockWarps = 8;

// The larger one, NaN if either is.
RNNC_INLINE real larger(real a, real b) { return b > a || b != b ? b : a; }

RNNC_CONSTEXPR bool has_largest(StatisticKind kind) {
  return kind == StatisticKind::kLargest || kind == StatisticKind::kSoftmax;
}
RNNC_CONSTEXPR bool has_second_pass(StatisticKind kind) {
  return has_largest(kind) || kind == StatisticKind::kMoments;
}

// What one pass combines for each statistic: one number or two.
template <int numbers>
struct Pass {
  real of[at_least_one(Cell::kStageStatistics)][numbers];
};

// body(i, kind) for each statistic that is needed before a stage.
template <int stage, typename Body>
RNNC_INLINE void for_statistics(const Body& body) {
  repeat<Cell::kStageStatistics>([&](int i) {
    if (kStageStatistics[i].stage == stage) body(i, kStageStatistics[i].kind);
  });
}
// body(i, kind, value) for each value of a unit that one of them reads.
template <int stage, typename Body>
RNNC_INLINE void for_statistic_values(const StagedWorkspace& workspace, const Body& body) {
  for_items(workspace, [&](const ItemIndex& item) {
    for_statistics<stage>([&](int i, StatisticKind kind) {
      for (int k = 0; k < kStageStatistics[i].count; ++k) {
        const int value = kStatisticValues[kStageStatistics[i].first + k];
        body(i, kind, *value_at(workspace, item, value));
      }
    });
  });
}

// Combines a pass over the threads of the block; all of them get the results.
template <int stage, int numbers, typename Combine>
RNNC_INLINE void over_block(Pass<numbers>& pass, const Combine& combine) {
  __shared__ real of_warp[at_least_one(Cell::kStageStatistics)][numbers][kBlockWarps];
  for_statistics<stage>([&](int i, StatisticKind kind) {
    repeat<numbers>([&](int n) {
      real& x = pass.of[i][n];
#pragma unroll
      for (int far = 16; far > 0; far /= 2) {
        x = combine(kind, x, __shfl_xor_sync(~0u, x, far));
      }
      if (threadIdx.x % 32 == 0) of_warp[i][n][threadIdx.x / 32] = x;
    });
  });
  __syncthreads();
  for_statistics<stage>([&](int i, StatisticKind kind) {
    repeat<numbers>([&](int n) {
      real& x = pass.of[i][n];
      x = of_warp[i][n][0];
#pragma unroll
      for (int warp = 1; warp < kBlockWarps; ++warp) x = combine(kind, x, of_warp[i][n][warp]);
    });
  });
}

// Sums, or the largest values.
template <int stage>
RNNC_INLINE void first_pass(Pass<1>& pass, const StagedWorkspace& workspace) {
  for_statistics<stage>([&](int i, StatisticKind kind) {
    pass.of[i][0] = has_largest(kind) ? lowest() : real(0);
  });
  for_statistic_values<stage>(workspace, [&](int i, StatisticKind kind, real value) {
    real& x = pass.of[i][0];
    x = has_largest(kind) ? larger(x, value) : x + value;
  });
  over_block<stage>(pass, [](StatisticKind kind, real a, real b) {
    return has_largest(kind) ? larger(a, b) : a + b;
  });
}

// Sums of what depends on the numbers of the first pass: of moments the distances from a rounded
// mean, which correct it, and their squares, which do not cancel.
template <int stage>
RNNC_INLINE void second_pass(Pass<2>& pass, const Pass<1>& about,
                             const StagedWorkspace& workspace) {
  for_statistics<stage>([&](int i, StatisticKind) { pass.of[i][0] = pass.of[i][1] = 0; });
  for_statistic_values<stage>(workspace, [&](int i, StatisticKind kind, real value) {
    const real first = about.of[i][0], distance = value - first;
    if (kind == StatisticKind::kMoments) {
      pass.of[i][0] += distance;
      pass.of[i][1] += distance * distance;
    } else if (kind == StatisticKind::kLargest) {
      pass.of[i][0] += value == first ? real(1) : real(0);
    } else if (kind == StatisticKind::kSoftmax) {
      pass.of[i][0] += exp(distance);
    }
  });
  over_block<stage>(pass, [](StatisticKind, real a, real b) { return a + b; });
}

// How many statistics a stage needs, and those of them with a second pass.
RNNC_CONSTEXPR int count_statistics(int stage, bool second) {
  int count = 0;
  for (int i = 0; i < Cell::kStageStatistics; ++i) {
    const bool counts = !second || has_second_pass(kStageStatistics[i].kind);
    count += kStageStatistics[i].stage == stage && counts;
  }
  return count;
}

// Computes the numbers that are needed before a stage, of which a head has so many in the
// workspace. What the stage before left is read by the threads that wrote it.
template <int stage>
RNNC_INLINE void compute_statistics(const StagedWorkspace& workspace, int numbers) {
  if constexpr (count_statistics(stage, false) > 0) {
    Pass<1> first;
    Pass<2> second;
    first_pass<stage>(first, workspace);
    for_statistics<stage>([&](int i, StatisticKind kind) {
      const bool is_mean = kind == StatisticKind::kMean || kind == StatisticKind::kMoments;
      if (is_mean) first.of[i][0] /= real(kStageStatistics[i].count) * real(workspace.dim);
    });
    if constexpr (count_statistics(stage, true) > 0) second_pass<stage>(second, first, workspace);
    for_statistics<stage>([&](int i, StatisticKind kind) {
      const real units = real(kStageStatistics[i].count) * real(workspace.dim);
      real number[2] = {first.of[i][0], 0};
      if (kind == StatisticKind::kMoments) {
        const real off = second.of[i][0] / units;
        number[0] += off;
        number[1] = divisor_of(second.of[i][1] / units - off * off, units);
      } else if (kind == StatisticKind::kLargest) {
        number[1] = second.of[i][0];
      } else if (kind == StatisticKind::kSoftmax) {
        number[0] = second.of[i][0];
        number[1] = first.of[i][0];
      }
      if (threadIdx.x > 0) return;
      const int64 place = int64{blockIdx.x} * numbers + kStageStatistics[i].to;
      workspace.numbers[place] = number[0];
      if (has_second_pass(kind)) workspace.numbers[place + 1] = number[1];
    });
    __syncthreads();
  }
}

}  // namespace rnnc::alternating
