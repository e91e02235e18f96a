// BlockStatistics: numbers of a head whose units are in the threads of one block.
//
// Lanes that share a batch row add their parts by shuffles, and the first of them writes the warp's
// part to shared memory. After a barrier every thread adds the parts of all warps, in their order.
//
// Of few warps each writes two parts, of half its lanes each. A last shuffle would take longer than
// adding twice as many parts behind the barrier: 35 cycles beside 15.
#pragma once

#include "lib/ptx/vec.cuh"
#include "lib/stages/item.cuh"
#include "lib/stages/parts.cuh"

namespace rnnc {

// A thread has `rows` batch rows of `units` units, 8 apart; lane / 4 is the first of them, lane % 4
// its place among the rows of a warp. What it gives and gets are the numbers of one direction.
template <int units, int rows, int warps, int head_dim>
struct BlockStatistics {
  static constexpr int kWarpUnits = 8 * units, kRows = 4 * rows;
  static constexpr bool kWhole = head_dim % kWarpUnits == 0;  // no unit is padding
  static constexpr int kParts = warps <= 4 ? 2 : 1;  // of a warp
  static constexpr int kLanes = kParts == 2 ? 12 : 28;  // bits of their indices, of a part
  static constexpr int kPartBytes = 2 * static_cast<int>(sizeof(real));
  static constexpr int kWarpBytes = kRows * 2 * kPartBytes;  // room for two parts
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
      if ((lane & kLanes) == 0) {
        char* const own = at(to, index, warp, rows * (lane & 3) + j) + (lane >> 4) * kPartBytes;
        Vec<real, 2> words;
        words.set({part.first, part.second});
        write_aligned(words, own);
      }
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
        all[index][j] = part_of_lanes<kind, kLanes, !kWhole>(united<kind>(parts));
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
        Part parts[kParts * warps];
        repeat<warps>([&](int warp) {
          Vec<real, 2 * kParts> words;
          words.read(at(from, index, warp, rows * (lane & 3) + j));
          repeat<kParts>([&](int part) {
            const real count = real(units_of(warp, part) * statistic.count);
            parts[kParts * warp + part] = {words[2 * part], words[2 * part + 1], count};
          });
        });
        set_numbers<statistic.kind>(numbers[j] + statistic.to, united<statistic.kind>(parts));
      });
    });
  }

 private:
  // How many units of a head are in a part of a warp.
  RNNC_CONSTEXPR int units_of(int warp, int part) {
    constexpr int lanes = 8 / kParts;
    int count = 0;
    for (int i = 0; i < units; ++i) {
      const int first = warp * kWarpUnits + 8 * i + part * lanes;
      count += minimum(maximum(head_dim - first, 0), lanes);
    }
    return count;
  }
  // The parts of a warp and of a row.
  static RNNC_MEMBER char* at(char* base, int statistic, int warp, int row) {
    return base + (statistic * warps + warp) * kWarpBytes + row * (kParts * kPartBytes);
  }
};

}  // namespace rnnc
