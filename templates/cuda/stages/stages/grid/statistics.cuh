// GridStatistics: numbers of a head whose units are in many blocks, exchanged through L2.
//
// Neighbouring lanes have neighbouring units of one batch row. They add their parts by shuffles,
// and publish the words of their part in the step's region: an exchange of a few words. Then each
// of them reads a share of the row's parts from all blocks, and shuffles add those. So every lane
// has the numbers, and no warp waits for another of its block. The order of additions is fixed.
#pragma once

#include "lib/kernels/grid_layout.cuh"
#include "lib/stages/item.cuh"
#include "lib/stages/parts.cuh"

namespace rnnc {

// A region has, for each tile of batch rows and stage, [rows of a warp][part][vector][row] of 4
// words each. So no two blocks write into one sector of L2, and what a warp reads is contiguous.
template <class Plan>
struct GridStatistics {
  static constexpr int kPartUnits = minimum(Plan::kUnits & -Plan::kUnits, 32);
  static constexpr int kWarpRows = 32 / kPartUnits;
  static constexpr int kParts = ceil_div(Plan::kHeadDim, kPartUnits);
  static constexpr bool kWhole = Plan::kHeadDim % kPartUnits == 0;  // no part has padding

  RNNC_CONSTEXPR int words_of(StatisticKind kind) { return has_second(kind) ? 2 : 1; }
  // The words that a stage needs of a part, before the statistic of that index.
  RNNC_CONSTEXPR int words_before(int stage, int index) {
    int count = 0;
    for (int i = 0; i < index; ++i) {
      if (kStageStatistics[i].stage == stage) count += words_of(kStageStatistics[i].kind);
    }
    return count;
  }
  RNNC_CONSTEXPR int words(int stage) { return words_before(stage, Cell::kStageStatistics); }
  RNNC_CONSTEXPR int vectors(int stage) { return ceil_div(words(stage), 4); }
  RNNC_CONSTEXPR int stage_bytes(int stage) {
    return kParts * vectors(stage) * kTileRows * kVectorBytes;
  }
  static constexpr int kVectorBytes = 16;
  static constexpr int kTileBytes =
      round_up(sum_before(Cell::kStages, stage_bytes), kTileKTileBytes);

  // Publishes the parts of an item's row for a stage, and prefetches to L2 their lines `ahead`
  // bytes further on. All lanes of a warp must call this.
  template <int stage, typename Item>
  static RNNC_MEMBER void publish(const Item& it, const Values& value, int first_unit, char* to,
                                  int64 ahead) {
    constexpr int count = words(stage), filled = 4 * vectors(stage);
    if constexpr (count > 0) {
      const int unit = first_unit + it.unit_idx, part = unit / kPartUnits;
      u32 own[count];
      for_statistics_of<stage>([&](auto index) {
        constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
        constexpr StatisticKind kind = statistic.kind;
        constexpr int first = words_before(stage, decltype(index)::value);
        Part parts[statistic.count];
        repeat<statistic.count>([&](int k) {
          parts[k] = part_of<kind>(value[kStatisticValues[statistic.first + k]]);
          if (!kWhole && unit >= Plan::kHeadDim) parts[k] = no_part<kind>();
        });
        const Part all = part_of_lanes<kind, kPartUnits - 1, !kWhole>(united<kind>(parts));
        own[first] = __float_as_uint(all.first);
        if (has_second(kind)) own[first + words_of(kind) - 1] = __float_as_uint(all.second);
      });
      // Whole vectors, though the last words say nothing: a store of whole sectors is faster.
      repeat<ceil_div(filled, kPartUnits)>([&](int i) {
        const int number = static_cast<int>(threadIdx.x) % kPartUnits + i * kPartUnits;
        u32 word = 0;
        repeat<count>([&](int k) { word = number == k ? own[k] : word; });
        if (part >= kParts || number >= filled) return;
        char* const at = vector_at<stage>(it, to, part, number / 4) + number % 4 * 4;
        // Not only floats from outside: a negated NaN is the sentinel.
        st_relaxed_gpu(at, word == kSentinel ? 0x7fffffffu : word);
        if (ahead) prefetch_l2(at + ahead);
      });
    }
  }

  // Waits for the parts of the rows of a phase's items, and gives item i their numbers, to(i).
  template <int stage, typename Item, int n, typename To>
  static RNNC_MEMBER void collect(const Item (&items)[n], int phase, const char* from,
                                  const Wait& wait, const To& to) {
    if constexpr (words(stage) > 0) {
      constexpr int of_part = vectors(stage), lanes = lanes_of(stage);
      constexpr int each = ceil_div(kParts, lanes), own = each * of_part;
      constexpr bool equal = kWhole && kParts % lanes == 0;  // all lanes have equally many values
      const int lane = static_cast<int>(threadIdx.x) % lanes;
      const auto part = [&](int i) { return lane + i / of_part % each * lanes; };
      uint4 words[n * own][1];
      gather<false>(
          words,
          [&](auto i, int) {
            return vector_at<stage>(items[i / own], from, part(i), i % of_part);
          },
          [&](int i) {
            const bool exists = kParts % lanes == 0 || part(i) < kParts;
            return items[i / own].phase == phase && exists;
          },
          wait);
      unroll<n>([&](auto item) {
        if (items[item].phase != phase) return;
        for_statistics_of<stage>([&](auto index) {
          constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
          constexpr StatisticKind kind = statistic.kind;
          constexpr int first = words_before(stage, decltype(index)::value);
          Part parts[each];
          repeat<each>([&](int i) {
            const uint4(*const vector)[1] = words + item * own + i * of_part;
            const real second = has_second(kind) ? number(vector, first + 1) : real(0);
            const int units = equal ? kPartUnits : units_of(part(i * of_part));
            parts[i] = {number(vector, first), second, real(units * statistic.count)};
            if (!equal && units == 0) parts[i] = no_part<kind>();
          });
          const Part all = part_of_lanes<kind, lanes - 1, !equal>(united<kind>(parts));
          set_numbers<kind>(to(item) + statistic.to, all);
        });
      });
    }
  }

 private:
  // Of the lanes of a row, those that share its parts. Where fewer of them divide the parts, the
  // others read the same ones: then all have as many, and there are fewer shuffles.
  RNNC_CONSTEXPR int lanes_of(int stage) {
    int lanes = kPartUnits;
    while (kParts % lanes > 0) lanes /= 2;
    return kParts / lanes * vectors(stage) > kMostVectors ? kPartUnits : lanes;
  }
  static constexpr int kMostVectors = 6;

  // The units of a part that exist.
  static RNNC_MEMBER int units_of(int part) {
    const int left = Plan::kHeadDim - part * kPartUnits;
    return left < 0 ? 0 : minimum(left, kPartUnits);
  }
  // A vector of a part, of an item's row.
  template <int stage, typename Item, typename Byte>
  static RNNC_MEMBER Byte* vector_at(const Item& it, Byte* region, int part, int vector) {
    constexpr int first = sum_before(stage, stage_bytes);
    const int row = it.phase * GridSizes<Plan>::kPhaseRows + it.phase_row;
    const int group = row % kTileRows / kWarpRows;
    const int place = (group * kParts + part) * vectors(stage) + vector;
    return region + row / kTileRows * kTileBytes + first +
           (place * kWarpRows + row % kWarpRows) * kVectorBytes;
  }
  // A word of several vectors.
  static RNNC_MEMBER real number(const uint4 (*vectors)[1], int word) {
    const uint4 v = vectors[word / 4][0];
    const int k = word % 4;
    return __uint_as_float(k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w);
  }
};

}  // namespace rnnc
