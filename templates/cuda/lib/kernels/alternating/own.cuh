// A step as one kernel: the product of what the step before left with R, and the rest.
//
// A block owns 8 units of a head and kRows batch rows.
#pragma once

namespace rnnc {

// The units and rows of a block, and the item of a thread; some threads have none.
struct Tile {
  int tiles;      // of a head
  int head, tile, first_row, item;

  RNNC_MEMBER explicit Tile(const Work& work) {
    tiles = gridDim.x / work.heads;
    head = blockIdx.x / tiles;
    tile = blockIdx.x - head * tiles;
    first_row = blockIdx.y * kRows;
    item = threadIdx.x;
  }
  // Where this block's tiles of rows begin among the factors of a source.
  RNNC_MEMBER int64 rows(const Work& work, int64 step, int pairs) const {
    return factor_tile(work, head, first_row / kTileRows, step, pairs);
  }
  RNNC_MEMBER Place place(const Work& work) const {
    return Place(work, head, 8 * tile + (item & 7), first_row + (item >> 3), item < kItems);
  }
};

// The arguments of the call in shared memory, where they hold no registers during the product. A
// barrier for the block.
template <typename Arguments>
RNNC_INLINE const Arguments& shared_arguments(const Work& work, unsigned long long* shared) {
  constexpr int words = sizeof(Arguments) / 8;
  const int i = threadIdx.x;
  static_assert(words <= 32 * kWarps, "a word a thread");
  if (i < words) {
    shared[i] = load_fresh(static_cast<const unsigned long long*>(work.arguments) + i);
  }
  __syncthreads();
  return *reinterpret_cast<const Arguments*>(shared);
}

}  // namespace rnnc
