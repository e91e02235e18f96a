// BlockStatistics: numbers of a head whose units are in the threads of one block.
//
// Lanes that share a batch row add their parts by shuffles, and the first of them writes the warp's
// part to shared memory. After a barrier every thread adds the parts of all warps, in their order.
#pragma once

#include "lib/stages/item.cuh"
#include "lib/stages/parts.cuh"

namespace rnnc {

// A thread has `rows` batch rows of `units` units, 8 apart; lane / 4 is the first of them, lane % 4
// its place among the rows of a warp. What it gives and gets are the numbers of one direction.
template <int units, int rows, int warps, int head_dim>
struct BlockStatistics {
  static constexpr int kWarpUnits = 8 * units, kRows = 4 * rows;
  static constexpr bool kWhole = head_dim % kWarpUnits == 0;  // no unit is padding
  static constexpr int kWarpBytes = kRows * 2 * static_cast<int>(sizeof(real));
  static constexpr int kBytes = Cell::kStageStatistics * warps * kWarpBytes;

  // Before the barrier ahead of a stage: writes this warp's parts. value(i, j, k) is value k of unit
  // i and row j.
  template <int stage, typename Value>
  static RNNC_MEMBER void publish(char* to, int warp, int lane, const Value& value) {
    for_statistics_of<stage>([&](auto index) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      repeat<rows>([&](int j) {
        Part part = no_part<statistic.kind>();
        repeat<units>([&](int i) {
          const bool exists = kWhole || warp * kWarpUnits + 8 * i + (lane >> 2) < head_dim;
          repeat<statistic.count>([&](int k) {
            const real x = value(i, j, kStatisticValues[statistic.first + k]);
            Part other = part_of<statistic.kind>(x), none = no_part<statistic.kind>();
            if (!kWhole && !exists) other = none;
            if (i + k == 0) {
              part = other;
            } else {
              add_part<statistic.kind>(part, other);
            }
          });
        });
        repeat<3>([&](int bit) {
          Part other = {__shfl_xor_sync(~0u, part.first, 4 << bit),
                        kPairs<statistic.kind> ? __shfl_xor_sync(~0u, part.second, 4 << bit) : real(0),
                        kWhole ? part.count : __shfl_xor_sync(~0u, part.count, 4 << bit)};
          add_part<statistic.kind>(part, other);
        });
        if (lane < 4) {
          real* const own = at(to, index, warp, rows * lane + j);
          own[0] = part.first;
          own[1] = part.second;
        }
      });
    });
  }

  // After the barrier: the numbers of each row.
  template <int stage, int n>
  static RNNC_MEMBER void collect(const char* from, int lane, real (&numbers)[rows][n]) {
    for_statistics_of<stage>([&](auto index) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      repeat<rows>([&](int j) {
        Part all;
        unroll<warps>([&](auto warp) {
          constexpr int rest = head_dim - decltype(warp)::value * kWarpUnits;
          const real* const own =
              at(const_cast<char*>(from), index, warp, rows * (lane & 3) + j);
          const Part part = {own[0], own[1], real(minimum(rest, kWarpUnits) * statistic.count)};
          if constexpr (decltype(warp)::value == 0) {
            all = part;
          } else {
            add_part<statistic.kind>(all, part);
          }
        });
        set_numbers<statistic.kind>(numbers[j] + statistic.to, all);
      });
    });
  }

 private:
  template <StatisticKind kind>
  static constexpr bool kPairs = kind != StatisticKind::kMean && kind != StatisticKind::kTotal;

  template <int stage, typename Body>
  static RNNC_MEMBER void for_statistics_of(const Body& body) {
    unroll<Cell::kStageStatistics>([&](auto index) {
      if constexpr (kStageStatistics[decltype(index)::value].stage == stage) body(index);
    });
  }
  static RNNC_MEMBER real* at(char* base, int statistic, int warp, int row) {
    return reinterpret_cast<real*>(base + (statistic * warps + warp) * kWarpBytes) + 2 * row;
  }
};

}  // namespace rnnc
