// GateMajorWeights: a warp's rows of R transposed in registers, and their product with the
// gradients of gates.
#pragma once

#include "lib/mma/accumulator.cuh"
#include "lib/mma/gate_major_k.cuh"

namespace rnnc {

// m16 tiles of one warp. The rows come through shared memory, `pitch` bytes apart, some k_tiles at
// a time: reading columns of R from global memory would need an address per two bytes.
template <typename K, int tiles, int pitch, int threads, int shared_bytes>
struct GateMajorWeights {
  static constexpr int kKTiles = K::all_k_tiles();
  // Without dense pairs there is nothing to stage, and little shared memory.
  static constexpr int kStagedKTiles =
      Cell::kSources == 0 ? 1 : minimum(shared_bytes / (kKTile * pitch), kKTiles);
  static_assert(kStagedKTiles > 0, "a k_tile of R must fit the block's shared memory");

  u32 fragment[kKTiles][2][tiles][4];
  Rounding rounding;

  // K starts with first_unit. unit_of(tile, half) is this lane's unit of each half of a tile.
  template <typename UnitOf>
  RNNC_MEMBER void load(char* rows, const Element* R, int64 heads, int64 head, int first_unit,
                        int lane, const UnitOf& unit_of) {
    rounding.begin();
    if constexpr (Cell::kSources > 0) {
      unroll<ceil_div(kKTiles, kStagedKTiles)>([&](auto index) {
        constexpr int first = decltype(index)::value * kStagedKTiles;
        constexpr int count = minimum(kStagedKTiles, kKTiles - first);
        K::template stage<kStagedKTiles, pitch, threads>(rows, R, heads, head, first_unit, first);
        repeat<count * 8>([&](int i) {  // word i / 2 % 4 of the quad's four, half i % 2 of the tile
          const int k = i / 8 * kKTile + ((lane & 3) * 4 + i / 2 % 4) * kPack;
          repeat<tiles>([&](int tile) {
            const u32 word = read(rows + k * pitch, unit_of(tile, i % 2));
            fragment[first + i / 8][i / 4 % 2][tile][i / 2 % 2 * 2 + i % 2] = word;
          });
        });
        __syncthreads();
      });
    }
    rounding.settle();
  }

  // Adds the product of one source, whose first mma step counts as first_step. load(k_tile) gives
  // the words of the gradients.
  template <int source, int first_step, typename Product, typename Load>
  RNNC_MEMBER void multiply(Product& product, const Load& load) const {
    constexpr int first = K::first_k_tile(source);
    for_k_tiles<K::k_tiles(source)>([&](int k_tile) { return load(first + k_tile); },
                                    [&](auto index, uint4 d) {
                                      constexpr int k_tile = decltype(index)::value;
                                      constexpr int step = first_step + 2 * k_tile;
                                      add<source, step>(product, first + k_tile, 0, d.x, d.y);
                                      add<source, step + 1>(product, first + k_tile, 1, d.z, d.w);
                                    });
  }

 private:
  // A word of R transposed: kPack rows of a staged column; zero if there is no such unit.
  RNNC_MEMBER u32 read(const char* row, int unit) {
    const char* from = row + unit * static_cast<int>(sizeof(Element));
    if (unit >= K::kHeadDim) return 0;
    if constexpr (kPack == 1) {
      return prepare_weight(*reinterpret_cast<const u32*>(from), rounding);
    } else {
      return *reinterpret_cast<const u16*>(from) |
             static_cast<u32>(*reinterpret_cast<const u16*>(from + pitch)) << 16;
    }
  }
  template <int source, int step, typename Product>
  RNNC_MEMBER void add(Product& product, int k_tile, int half, u32 b0, u32 b1) const {
    repeat<tiles>([&](int tile) {
      product[tile][source].template add<step>(fragment[k_tile][half][tile], b0, b1, rounding);
    });
  }
};

}  // namespace rnnc
