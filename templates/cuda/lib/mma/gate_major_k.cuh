// GateMajorK: the order of K in a backward product with R transposed, and its rows of R.
#pragma once

#include "lib/mma/k_tile.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc {

// For each source, K has `units` units of every pair (gate, source), one pair after the other, and
// is padded to whole k_tiles.
template <int units, int head_dim>
struct GateMajorK {
  static constexpr int kHeadDim = head_dim;
  RNNC_CONSTEXPR int k_tiles(int source) { return ceil_div(kSourcePairs[source] * units, kKTile); }
  RNNC_CONSTEXPR int first_k_tile(int source) { return sum_before(source, k_tiles); }
  // All k_tiles; at least one, as the size of an array.
  RNNC_CONSTEXPR int all_k_tiles() { return at_least_one(first_k_tile(Cell::kSources)); }

  // The row of R at position k of all k_tiles, where units start at first_unit; null if k is
  // padding.
  static RNNC_MEMBER const Element* row_of(const Element* R, int64 heads, int64 head,
                                           int first_unit, int k) {
    for (int source = 0; source < Cell::kSources; ++source) {
      const int source_k = k - first_k_tile(source) * kKTile;
      const int pair = source_k / units, out = first_unit + source_k % units;
      if (source_k >= 0 && pair < kSourcePairs[source] && out < head_dim) {
        const int matrix = kPairMatrix[kSourceFirstPair[source] + pair];
        return R + ((matrix * heads + head) * head_dim + out) * head_dim;
      }
    }
    return nullptr;
  }

  // Copies the rows of `count` k_tiles to shared memory, `pitch` bytes apart, with all threads of a
  // block.
  template <int count, int pitch, int threads>
  static RNNC_MEMBER void stage(char* rows, const Element* R, int64 heads, int64 head,
                                int first_unit, int first) {
    constexpr int row_bytes = head_dim * static_cast<int>(sizeof(Element));
    constexpr int access = access_bytes(row_bytes), pieces = row_bytes / access;
#pragma unroll 1
    for (int i = threadIdx.x; i < count * kKTile * pieces; i += threads) {
      const int k = i / pieces, byte = i % pieces * access;
      const char* from =
          reinterpret_cast<const char*>(row_of(R, heads, head, first_unit, first * kKTile + k));
      char* to = rows + k * pitch + byte;
      if (from) {
        cp_async<access>(to, from + byte);
      } else {
        for (int half = 0; half < access; half += 2) *reinterpret_cast<u16*>(to + half) = 0;
      }
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
  }
};

}  // namespace rnnc
