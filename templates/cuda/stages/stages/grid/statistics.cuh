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

// A region has, for each tile of batch rows, stage, and row, the words of all parts. Those that one
// stage needs of a part are neighbours: 1, 2, or a multiple of 4, so that readers load vectors.
template <class Plan>
struct GridStatistics {
  static constexpr int kPartUnits = minimum(Plan::kUnits & -Plan::kUnits, 32);
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
  RNNC_CONSTEXPR int part_words(int stage) {
    return words(stage) <= 2 ? words(stage) : round_up(words(stage), 4);
  }
  RNNC_CONSTEXPR int part_vectors(int stage) { return ceil_div(part_words(stage), 4); }
  RNNC_CONSTEXPR int vector_parts(int stage) {
    return ceil_div(4, at_least_one(part_words(stage)));
  }
  // A group of parts fills one vector or several.
  RNNC_CONSTEXPR int groups(int stage) {
    return part_words(stage) > 0 ? ceil_div(kParts, vector_parts(stage)) : 0;
  }
  RNNC_CONSTEXPR int row_bytes(int stage) { return groups(stage) * part_vectors(stage) * 16; }
  RNNC_CONSTEXPR int stage_bytes(int stage) { return kTileRows * row_bytes(stage); }
  static constexpr int kTileBytes =
      round_up(sum_before(Cell::kStages, stage_bytes), kTileKTileBytes);

  // Publishes the parts of an item's row for a stage, and prefetches to L2 their lines `ahead`
  // bytes further on. All lanes of a warp must call this.
  template <int stage, typename Item>
  static RNNC_MEMBER void publish(const Item& it, const Values& value, int first_unit, char* to,
                                  int64 ahead) {
    constexpr int count = part_words(stage), missing = groups(stage) * vector_parts(stage) - kParts;
    if constexpr (count > 0) {
      const int unit = first_unit + it.unit_idx, part = unit / kPartUnits;
      u32 own[count] = {};
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
      // The last part also writes what fills its vector up.
      const int filled = part + 1 == kParts ? count * (1 + missing) : count;
      char* const row = row_at<stage>(it, to) + part * count * 4;
      repeat<ceil_div(count * (1 + missing), kPartUnits)>([&](int i) {
        const int number = static_cast<int>(threadIdx.x) % kPartUnits + i * kPartUnits;
        u32 word = 0;
        repeat<count>([&](int k) { word = number == k ? own[k] : word; });
        if (part >= kParts || number >= filled) return;
        // Not only floats from outside: a negated NaN is the sentinel.
        st_relaxed_gpu(row + number * 4, word == kSentinel ? 0x7fffffffu : word);
        if (ahead) prefetch_l2(row + number * 4 + ahead);
      });
    }
  }

  // Waits for the parts of the rows of a phase's items, and gives item i their numbers, to(i).
  template <int stage, typename Item, int n, typename To>
  static RNNC_MEMBER void collect(const Item (&items)[n], int phase, const char* from,
                                  const Wait& wait, const To& to) {
    if constexpr (part_words(stage) > 0) {
      constexpr int vectors = part_vectors(stage), lanes = lanes_of(stage);
      constexpr int each = ceil_div(groups(stage), lanes), own = each * vectors;
      const int lane = static_cast<int>(threadIdx.x) % lanes;
      const auto group = [&](int i) { return lane + i / vectors % each * lanes; };
      uint4 words[n * own][1];
      gather<false>(
          words,
          [&](auto i, int) {
            return row_at<stage>(items[i / own], from) + (group(i) * vectors + i % vectors) * 16;
          },
          [&](int i) {
            const bool exists = groups(stage) % lanes == 0 || group(i) < groups(stage);
            return items[i / own].phase == phase && exists;
          },
          wait);
      unroll<n>([&](auto item) {
        if (items[item].phase != phase) return;
        for_statistics_of<stage>([&](auto index) {
          constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
          constexpr StatisticKind kind = statistic.kind;
          constexpr int first = words_before(stage, decltype(index)::value);
          constexpr int per_vector = vector_parts(stage);
          Part parts[each * per_vector];
          repeat<each * per_vector>([&](int i) {
            const int which = item * own + i / per_vector * vectors;
            const int word = i % per_vector * part_words(stage) + first;
            const int part = group(i / per_vector * vectors) * per_vector + i % per_vector;
            const int units = kEqual<stage> ? kPartUnits : units_of(part);
            const real second = has_second(kind) ? number(words + which, word + 1) : real(0);
            parts[i] = {number(words + which, word), second, real(units * statistic.count)};
            if (!kEqual<stage> && units == 0) parts[i] = no_part<kind>();
          });
          const Part all = part_of_lanes<kind, lanes - 1, !kEqual<stage>>(united<kind>(parts));
          set_numbers<kind>(to(item) + statistic.to, all);
        });
      });
    }
  }

 private:
  // Of the lanes of a row, those that share its parts. Where fewer of them divide the groups, the
  // others read the same ones: then all have as many, and there are fewer shuffles.
  RNNC_CONSTEXPR int lanes_of(int stage) {
    int lanes = kPartUnits;
    while (groups(stage) % lanes > 0) lanes /= 2;
    return groups(stage) / lanes * part_vectors(stage) > kMostVectors ? kPartUnits : lanes;
  }
  static constexpr int kMostVectors = 4;
  // Whether all lanes have equally many values.
  template <int stage>
  static constexpr bool kEqual =
      kWhole && groups(stage) % lanes_of(stage) == 0 && kParts % vector_parts(stage) == 0;

  static RNNC_MEMBER int units_of(int part) {
    const int left = Plan::kHeadDim - part * kPartUnits;
    return left < 0 ? 0 : minimum(left, kPartUnits);
  }
  template <int stage, typename Item, typename Byte>
  static RNNC_MEMBER Byte* row_at(const Item& it, Byte* region) {
    const int row = it.phase * GridSizes<Plan>::kPhaseRows + it.phase_row;
    constexpr int first = sum_before(stage, stage_bytes);
    return region + row / kTileRows * kTileBytes + first + row % kTileRows * row_bytes(stage);
  }
  // A word of several vectors.
  static RNNC_MEMBER real number(const uint4 (*vectors)[1], int word) {
    const uint4 v = vectors[word / 4][0];
    const int k = word % 4;
    return __uint_as_float(k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w);
  }
};

}  // namespace rnnc
