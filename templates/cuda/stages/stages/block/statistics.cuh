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
  // i and row j. NOTE: of two rows, stores come after all shuffles. The compiler branches around them,
  // and shuffles behind a branch that some lanes take are slow: with eight rows a step of a norm's
  // backward took 4 us in place of 1. Of one row, a store by itself needs no branch; several together
  // do, and the step took 0.91 us in place of 0.82.
  template <int stage, typename Value>
  static RNNC_MEMBER void publish(char* to, int warp, int lane, const Value& value) {
    Part all[at_least_one(Cell::kStageStatistics)][rows];
    const auto store = [&](auto index, int j) {
      const Part& part = all[index][j];
      if (lane < 4) *at(to, index, warp, rows * lane + j) = {part.first, part.second};
    };
    for_statistics_of<stage>([&](auto index) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      constexpr StatisticKind kind = statistic.kind;
      repeat<rows>([&](int j) {
        Part parts[units * statistic.count];
        repeat<units>([&](int i) {
          const bool exists = kWhole || warp * kWarpUnits + 8 * i + (lane >> 2) < head_dim;
          repeat<statistic.count>([&](int k) {
            const Part part = part_of<kind>(value(i, j, kStatisticValues[statistic.first + k]));
            parts[i * statistic.count + k] = exists ? part : no_part<kind>();
          });
        });
        // Lanes of all units of the warp.
        all[index][j] = part_of_lanes<kind, 28, !kWhole>(united<kind>(parts));
        if constexpr (rows == 1) store(index, j);
      });
    });
    if constexpr (rows > 1) {
      for_statistics_of<stage>([&](auto index) { repeat<rows>([&](int j) { store(index, j); }); });
    }
  }

  // After the barrier: the numbers of each row.
  template <int stage, int n>
  static RNNC_MEMBER void collect(char* from, int lane, real (&numbers)[rows][n]) {
    for_statistics_of<stage>([&](auto index) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      repeat<rows>([&](int j) {
        Part parts[warps];
        repeat<warps>([&](int warp) {
          const Words words = *at(from, index, warp, rows * (lane & 3) + j);
          const int exist = minimum(head_dim - warp * kWarpUnits, kWarpUnits);
          parts[warp] = {words.first, words.second, real(exist * statistic.count)};
        });
        set_numbers<statistic.kind>(numbers[j] + statistic.to, united<statistic.kind>(parts));
      });
    });
  }

 private:
  struct __align__(2 * sizeof(real)) Words {
    real first, second;
  };

  static RNNC_MEMBER Words* at(char* base, int statistic, int warp, int row) {
    return reinterpret_cast<Words*>(base + (statistic * warps + warp) * kWarpBytes) + row;
  }
};

}  // namespace rnnc
