// StagedSplitK: a SplitK product whose sources are multiplied at different times of a step.
#pragma once

#include "lib/kernels/split_k.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// The sources of a stage follow each other.
RNNC_CONSTEXPR int first_source_of(int stage) {
  int source = 0;
  while (source < Cell::kSources && kSourceStage[source] != stage) ++source;
  return source;
}
RNNC_CONSTEXPR int sources_of(int stage) {
  int count = 0;
  for (int i = 0; i < Cell::kSources; ++i) count += kSourceStage[i] == stage;
  return count;
}
RNNC_CONSTEXPR int pairs_of(int stage) {
  int count = 0;
  for (int i = 0; i < Cell::kSources; ++i) {
    if (kSourceStage[i] == stage) count += kSourcePairs[i];
  }
  return count;
}
template <typename KRange>
struct StagedSplitK : SplitK<KRange> {
  using Base = SplitK<KRange>;
  static constexpr int kPhaseTiles = KRange::kPhaseTiles;
  // The copies of a stream come in one order, and a backward multiplies in another one.
  static_assert(Base::kStreamedFragments == 0, "all of R is on the chip");

  RNNC_CONSTEXPR int first_k_tile_of(int stage) {
    return Base::first_warp_k_tile(first_source_of(stage));
  }
  RNNC_CONSTEXPR int k_tiles_of(int stage) {
    return Base::first_warp_k_tile(first_source_of(stage) + sources_of(stage)) -
           first_k_tile_of(stage);
  }
  RNNC_CONSTEXPR int first_tile_of(int stage) { return Base::first_tile(first_source_of(stage)); }
  RNNC_CONSTEXPR int tiles_of(int stage) {
    return Base::first_tile(first_source_of(stage) + sources_of(stage)) - first_tile_of(stage);
  }
  // Of the tiles of a stage; as many for each as an instruction needs.
  template <int stage>
  using Sums = Accumulator<ceil_div(4, tiles_of(stage) * kPhaseTiles)>[tiles_of(stage)]
                                                                      [kPhaseTiles];

  // As `multiply`, of the sources of one stage.
  template <int stage, typename SourceOffset>
  RNNC_MEMBER void multiply_for(Sums<stage>& sum, const char* states, int warp,
                                const SourceOffset& source_offset, int tile_bytes,
                                const Wait& wait) const {
    constexpr int begin = first_k_tile_of(stage), all = k_tiles_of(stage);
    constexpr int each = minimum(all, at_least_one(Base::kVectors / kPhaseTiles));
    constexpr bool polls_one_word =
        all * kPhaseTiles * KRange::kWarps * kTileKTileBytes > kPolledBytes;
    repeat<tiles_of(stage)>(
        [&](int tile) { repeat<kPhaseTiles>([&](int n) { sum[tile][n].clear(); }); });
    const auto address = [&](auto k_tile, int tile) {
      constexpr int source = Base::source_of(k_tile);
      const int global_k_tile = warp * KRange::warp_k_tiles(source);
      const char* const first = states + source_offset(source) + global_k_tile * kTileKTileBytes;
      return first + (k_tile - Base::first_warp_k_tile(source)) * kTileKTileBytes +
             tile * tile_bytes;
    };
    unroll<ceil_div(all, each)>([&](auto batch) {
      constexpr int first = begin + batch * each, count = minimum(each, begin + all - first);
      uint4 words[count][kPhaseTiles];
      gather<polls_one_word>(
          words, [&](auto i, int tile) { return address(Index<first + i>{}, tile); },
          [&](int i) { return Base::kFull || this->written[first + i]; }, wait);
      unroll<count>([&](auto i) {
        constexpr int k_tile = first + i;
        unroll<2 * KRange::tiles(Base::source_of(k_tile))>(
            [&](auto index) { add_fragment<stage, k_tile, index>(sum, words[i]); });
      });
    });
  }

 private:
  static constexpr int kPolledBytes = 16384;  // see kPollsOneWord

  // Multiplies one fragment of R, `index` among those of its k_tile, by all tiles of batch rows.
  template <int stage, int k_tile, int index>
  RNNC_MEMBER void add_fragment(Sums<stage>& sum, const uint4 (&words)[kPhaseTiles]) const {
    constexpr int source = Base::source_of(k_tile), tiles = KRange::tiles(source);
    constexpr int half = index / tiles, step = 2 * (k_tile - first_k_tile_of(stage)) + half;
    constexpr int tile = Base::first_tile(source) - first_tile_of(stage) + index % tiles;
    constexpr Memory where = Base::memory(k_tile);
    constexpr int number = Base::first_fragment(k_tile, where) + index;
    u32 weights[4];
    if constexpr (where == Memory::kRegisters) {
      assign(weights, this->fragment[number]);
    } else {
      ld_shared_fragment(weights, this->shared_fragments + number * Base::kFragmentBytes);
    }
    repeat<kPhaseTiles>([&](int n) {
      const uint4 w = words[n];
      sum[tile][n].template add<step>(weights, half ? w.z : w.x, half ? w.w : w.y, this->rounding);
    });
  }
};

}  // namespace rnnc
