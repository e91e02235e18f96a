// GateTiles: how rows of R, interleaved by gate, fill the m16 tiles of a forward product.
#pragma once

#include "lib/mma/k_tile.cuh"

namespace rnnc {

// For each source, a half of a tile is a group of 8 units of a pair (gate, source): all pairs of a
// group, then the next group. An odd last half is zero.
template <int groups>
struct GateTiles {
  RNNC_CONSTEXPR int halves(int source) { return groups * kSourcePairs[source]; }
  RNNC_CONSTEXPR int tiles(int source) { return ceil_div(halves(source), 2); }
  RNNC_CONSTEXPR int first_tile(int source) { return sum_before(source, tiles); }

  // body(pair, group, tile, half): where the product of each pair is, for each group.
  template <typename Body>
  static RNNC_MEMBER void for_pairs(const Body& body) {
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = source_index;
      unroll<halves(source)>([&](auto index) {
        constexpr int i = decltype(index)::value, pairs = kSourcePairs[source];
        body(Index<kSourceFirstPair[source] + i % pairs>{}, Index<i / pairs>{},
             Index<first_tile(source) + i / 2>{}, Index<i % 2>{});
      });
    });
  }
};

}  // namespace rnnc
