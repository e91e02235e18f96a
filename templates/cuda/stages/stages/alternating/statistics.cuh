// Numbers of a head from values of its units, by the block that has all of them: each sum has one
// order, whatever else runs.
#pragma once

#include "lib/ptx/math.cuh"
#include "lib/stages/alternating/workspace.cuh"

namespace rnnc::alternating {

constexpr int kMostWarps = 32;

// Combines a value of each thread of the block, and gives the result to all of them.
template <typename Combine>
RNNC_INLINE real over_block(real x, const Combine& combine) {
  __shared__ real of_warp[kMostWarps];
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x = combine(x, __shfl_xor_sync(~0u, x, far));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  real found = of_warp[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) found = combine(found, of_warp[warp]);
  __syncthreads();  // all have read, so the next call may write
  return found;
}
RNNC_INLINE real sum_over_block(real x) {
  return over_block(x, [](real a, real b) { return a + b; });
}
// The larger one, NaN if either is.
RNNC_INLINE real larger(real a, real b) { return b > a || b != b ? b : a; }

// The values of a statistic: those of this thread's units are at hand.
struct HeadValues {
  const StagedWorkspace& workspace;
  const StageStatistic& statistic;

  // Sums body(value) over all values of the head.
  template <typename Body>
  RNNC_MEMBER real sum(const Body& body) const {
    real own = 0;
    each([&](real value) { own += body(value); });
    return sum_over_block(own);
  }
  RNNC_MEMBER real total() const {
    return sum([](real value) { return value; });
  }
  RNNC_MEMBER real count() const {
    return static_cast<real>(statistic.count) * static_cast<real>(workspace.dim);
  }
  RNNC_MEMBER real largest() const {
    real own = literal(-1);
    each([&](real value) { own = larger(own, value); });
    return over_block(own, [](real a, real b) { return larger(a, b); });
  }

 private:
  template <typename Body>
  RNNC_MEMBER void each(const Body& body) const {
    for_items(workspace, [&](const ItemIndex& item) {
      for (int i = 0; i < statistic.count; ++i) {
        body(*value_at(workspace, item, kStatisticValues[statistic.first + i]));
      }
    });
  }
};

// Computes a statistic; every thread of the block gets its numbers.
RNNC_INLINE void compute(const HeadValues& of, real (&number)[2]) {
  switch (of.statistic.kind) {
    case StatisticKind::kMean: number[0] = of.total() / of.count(); break;
    case StatisticKind::kTotal: number[0] = of.total(); break;
    case StatisticKind::kLargest: {
      const real most = of.largest();
      number[0] = most;
      number[1] = of.sum([&](real value) { return value == most ? real(1) : real(0); });
      break;
    }
    case StatisticKind::kMoments: {
      // The distances from a rounded mean correct it, and their squares do not cancel.
      const real about = of.total() / of.count();
      const real off = of.sum([&](real value) { return value - about; }) / of.count();
      const real square =
          of.sum([&](real value) { return (value - about) * (value - about); }) / of.count();
      number[0] = about + off;
      number[1] = square - off * off;
      break;
    }
    case StatisticKind::kSoftmax: {
      const real most = of.largest();
      number[0] = of.sum([&](real value) { return exp(value - most); });
      number[1] = most;
      break;
    }
  }
}

// Computes the numbers that are needed before a stage, of which a head has so many in the
// workspace. What the stage before left is read by the threads that wrote it.
template <int stage>
RNNC_INLINE void compute_statistics(const StagedWorkspace& workspace, int numbers) {
  if constexpr (kByHead) {
    repeat<Cell::kStageStatistics>([&](int i) {
      const StageStatistic& statistic = kStageStatistics[i];
      if (statistic.stage != stage) return;
      real number[2];
      compute({workspace, statistic}, number);
      const bool is_pair =
          statistic.kind != StatisticKind::kMean && statistic.kind != StatisticKind::kTotal;
      if (threadIdx.x == 0) {
        real* const to = workspace.numbers + int64{blockIdx.x} * numbers + statistic.to;
        to[0] = number[0];
        if (is_pair) to[1] = number[1];
      }
    });
    __syncthreads();
  }
}

}  // namespace rnnc::alternating
