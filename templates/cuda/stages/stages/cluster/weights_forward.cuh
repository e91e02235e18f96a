// StagedWeights: a warp's part of R in registers, for the forward of a cell with stages.
//
// A source with an odd number of gates has one gate without another for its tile. Two warps share
// the tile of that gate: its halves are the units of the one and of the other, and each warp
// multiplies every second step of K. So R is not padded.
#pragma once

#include "lib/exchange/cluster_layout_forward.cuh"
#include "lib/stages/item.cuh"

namespace rnnc::cluster_forward {

RNNC_CONSTEXPR bool is_odd(int source) { return kSourcePairs[source] % 2 == 1; }
constexpr int kOddSources =
    Cell::kSources == 0 ? 0 : sum_before(Cell::kSources, [](int i) { return int{is_odd(i)}; });
// Whether warps share tiles; else half of such a tile is zero.
constexpr bool kShares = kOddSources > 0 && kGroups % 2 == 0;
// Whether a half of a source's tiles, counted over all of them, is in a tile that warps share.
RNNC_CONSTEXPR bool is_shared_half(int source, int half) {
  return kShares && is_odd(source) && half >= kSourcePairs[source] - 1;
}

// How many tiles a stage multiplies, and accumulators of a tile: few instructions in turn would
// wait for each other.
RNNC_CONSTEXPR int tiles_of(int stage) {
  int count = 0;
  for (int i = 0; i < Cell::kSources; ++i) {
    if (kSourceStage[i] == stage) count += Tiles::tiles(i);
  }
  return count;
}
RNNC_CONSTEXPR int accumulators_of(int stage) { return kPack == 2 && tiles_of(stage) == 1 ? 4 : 2; }
template <int stage>
using StageProduct = Accumulator<accumulators_of(stage)>[kTiles];

struct StagedWeights : Weights {
  // `unit` is that of this lane in the warp's group; the warps of groups 2n and 2n + 1 share tiles.
  RNNC_MEMBER void load(const Element* R, int64 heads, int64 head, int unit, int group,
                        int first_k_tile, int lane) {
    rounding.begin();
    const int first = first_k_tile * kKTile + (lane & 3) * 4 * kPack, parity = group & 1;
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value, pairs = kSourcePairs[source];
      unroll<2 * Tiles::tiles(source)>([&](auto half_index) {
        constexpr int half = decltype(half_index)::value;
        constexpr int tile = Tiles::first_tile(source) + half / 2;
        constexpr bool shared_half = is_shared_half(source, half);
        constexpr bool used = half < pairs || shared_half;
        const int matrix = kPairMatrix[kSourceFirstPair[source] + minimum(half, pairs - 1)];
        const int row = shared_half ? unit + 8 * (half % 2 - parity) : unit;
        const bool exists = row < Plan::kHeadDim;
        const Element* from =
            R + ((matrix * heads + head) * Plan::kHeadDim + (exists ? row : 0)) * Plan::kHeadDim;
        repeat<kSplitKTiles>([&](int k_tile) {
          u32 words[4] = {0u, 0u, 0u, 0u};
          if constexpr (used) {
            load_weight_vector<Plan::kHeadDim>(words, from, first + k_tile * kKTile, exists,
                                               rounding);
          }
          repeat<4>([&](int i) {
            if constexpr (shared_half) {
              if (i < 2) {
                fragment[k_tile][0][tile][i * 2 + half % 2] = parity ? words[i + 2] : words[i];
              }
            } else {
              fragment[k_tile][i / 2][tile][i % 2 * 2 + half % 2] = words[i];
            }
          });
          limit_loads_in_flight();
        });
      });
    });
    rounding.settle();
  }

  // Adds the products that a stage needs. load(source, k_tile) gives the words of a source.
  // load_half gives two of them: of a source with one gate, whose only tile warps share.
  template <int stage, typename Load, typename LoadHalf>
  RNNC_MEMBER void multiply_for(StageProduct<stage>& product, bool odd_group, const Load& load,
                                const LoadHalf& load_half) const {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      if constexpr (is_shared_half(source, 0)) {
        unroll<kSplitKTiles>([&](auto index) {
          constexpr int k_tile = decltype(index)::value, tile = Tiles::first_tile(source);
          const uint2 words = load_half(source, k_tile);
          product[tile].template add<k_tile>(fragment[k_tile][0][tile], words.x, words.y,
                                             rounding);
        });
        return;
      }
      for_k_tiles<kSplitKTiles>([&](int k_tile) { return load(source, k_tile); },
                                [&](auto index, uint4 words) {
                                  constexpr int k_tile = decltype(index)::value;
                                  add_tile<source, k_tile>(product, odd_group, words);
                                });
    });
  }

 private:
  template <int source, int k_tile, int n>
  RNNC_MEMBER void add_tile(Accumulator<n> (&product)[kTiles], bool odd_group,
                            const uint4& words) const {
    unroll<Tiles::tiles(source)>([&](auto index) {
      constexpr int i = decltype(index)::value, tile = Tiles::first_tile(source) + i;
      const auto& own = fragment[k_tile];
      if constexpr (is_shared_half(source, 2 * i)) {
        product[tile].template add<k_tile>(own[0][tile], odd_group ? words.z : words.x,
                                           odd_group ? words.w : words.y, rounding);
      } else {
        product[tile].template add<2 * k_tile>(own[0][tile], words.x, words.y, rounding);
        product[tile].template add<2 * k_tile + 1>(own[1][tile], words.z, words.w, rounding);
      }
    });
  }
};

}  // namespace rnnc::cluster_forward
