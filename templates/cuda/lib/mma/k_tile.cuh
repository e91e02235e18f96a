// K tiles: how the inner dimension of a product is cut, and the loop over its tiles.
//
// A k_tile has 16 words (64 bytes) per row. Lane quad q owns the words 4q .. 4q + 3 of both
// operands, so one 16-byte load of a row feeds two mma steps: words 4q and 4q + 1, then 4q + 2 and
// 4q + 3.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

constexpr int kPack = 4 / sizeof(Element);  // elements per word
constexpr int kKTile = 16 * kPack;          // elements of K per k_tile
constexpr int kKTileBytes = 64;             // per row
constexpr int kColumns = 8;                 // columns of a product: batch rows, and padding

// product(k_tile, words) for each k_tile; each is loaded kLoadStages k_tiles ahead.
constexpr int kLoadStages = 3;
template <int k_tiles, typename Load, typename Product>
RNNC_INLINE void for_k_tiles(const Load& load, const Product& product) {
  uint4 words[k_tiles < kLoadStages ? at_least_one(k_tiles) : kLoadStages];
  unroll < k_tiles<kLoadStages ? k_tiles : kLoadStages>(
               [&](auto index) { words[decltype(index)::value] = load(decltype(index)::value); });
  unroll<k_tiles>([&](auto index) {
    constexpr int k_tile = decltype(index)::value;
    const uint4 current = words[k_tile % kLoadStages];
    if constexpr (k_tile + kLoadStages < k_tiles) {
      words[k_tile % kLoadStages] = load(k_tile + kLoadStages);
    }
    product(index, current);
  });
}

}  // namespace rnnc
