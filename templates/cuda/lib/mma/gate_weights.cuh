// GateWeights: a warp's part of R in registers, rows interleaved by gate, and its product with h.
#pragma once

#include "lib/mma/accumulator.cuh"
#include "lib/mma/gate_tiles.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

// The four words of a k_tile that a lane multiplies, from element k of a row of R on; zero if the
// row is not valid or beyond its end.
template <int head_dim>
RNNC_INLINE void load_weight_vector(u32 (&words)[4], const Element* row, int k, bool valid,
                                    Rounding& rounding) {
  if constexpr (head_dim * sizeof(Element) % 16 == 0) {
    const bool in_bounds = valid && k < head_dim;
    ld_global_v4(words, row + (in_bounds ? k : 0));
    repeat<4>([&](int i) { words[i] = prepare_weight(in_bounds ? words[i] : 0u, rounding); });
  } else {
    repeat<4>([&](int i) {
      words[i] = 0u;
      repeat<kPack>([&](int e) {
        const int element = k + i * kPack + e;
        const bool in_bounds = valid && element < head_dim;
        const Element* from = row + (in_bounds ? element : 0);
        if constexpr (kPack == 1) {
          const u32 word = ld_global_u32(from);
          words[i] = prepare_weight(in_bounds ? word : 0u, rounding);
        } else {
          const u16 half = ld_global_u16(from);
          words[i] |= in_bounds ? static_cast<u32>(half) << 16 * e : 0u;
        }
      });
    });
  }
}

// The tiles of one warp, with k_tiles of K.
template <typename Tiles, int k_tiles, int head_dim>
struct GateWeights {
  static constexpr int kTiles = at_least_one(Tiles::first_tile(Cell::kSources));
  u32 fragment[k_tiles][2][kTiles][4];
  Rounding rounding;

  // `unit` is that of this lane in the warp's first group.
  RNNC_MEMBER void load(const Element* R, int64 heads, int64 head, int unit, int first_k_tile,
                        int lane) {
    rounding.begin();
    const int first = first_k_tile * kKTile + (lane & 3) * 4 * kPack;
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value, pairs = kSourcePairs[source];
      unroll<2 * Tiles::tiles(source)>([&](auto half_index) {
        constexpr int half = half_index;
        constexpr int tile = Tiles::first_tile(source) + half / 2;
        constexpr bool paired = half < Tiles::halves(source);
        const int matrix = kPairMatrix[kSourceFirstPair[source] + (paired ? half % pairs : 0)];
        const int row = unit + (paired ? half / pairs * 8 : 0);
        const bool exists = row < head_dim;
        const Element* from =
            R + ((matrix * heads + head) * head_dim + (exists ? row : 0)) * head_dim;
        repeat<k_tiles>([&](int k_tile) {
          u32 words[4] = {0u, 0u, 0u, 0u};
          if constexpr (paired) {
            load_weight_vector<head_dim>(words, from, first + k_tile * kKTile, exists, rounding);
          }
          repeat<4>([&](int i) { fragment[k_tile][i / 2][tile][i % 2 * 2 + half % 2] = words[i]; });
          limit_loads_in_flight();
        });
      });
    });
    rounding.settle();
  }

  // Adds the product with h to the accumulators. load(source, k_tile) gives the words of h.
  template <int n, typename Load>
  RNNC_MEMBER void multiply(Accumulator<n> (&product)[kTiles], const Load& load) const {
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = source_index;
      for_k_tiles<k_tiles>([&](int k_tile) { return load(source, k_tile); },
                           [&](auto index, uint4 h) {
                             constexpr int k_tile = decltype(index)::value;
                             add<source, 2 * k_tile>(product, h.x, h.y);
                             add<source, 2 * k_tile + 1>(product, h.z, h.w);
                           });
    });
  }

 private:
  // Adds an mma step of all tiles of a source.
  template <int source, int mma_step, int n>
  RNNC_MEMBER void add(Accumulator<n> (&product)[kTiles], u32 b0, u32 b1) const {
    unroll<Tiles::tiles(source)>([&](auto tile_index) {
      constexpr int tile = Tiles::first_tile(source) + decltype(tile_index)::value;
      product[tile].template add<mma_step>(fragment[mma_step / 2][mma_step % 2][tile], b0, b1,
                                           rounding);
    });
  }
};

}  // namespace rnnc
