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
  RNNC_MEMBER Place place(const Work& work) const {
    return Place(work, head, 8 * tile + (item & 7), first_row + (item >> 3), item < kItems);
  }
};

// The arguments of the call in shared memory, where they hold no registers during the product, and the
// step of a node.
template <typename Arguments>
struct SharedCall {
  const Arguments& a;
  int64 step;

  // A barrier for the block.
  RNNC_MEMBER SharedCall(const Work& work, int64 number, unsigned long long* shared)
      : a(*reinterpret_cast<const Arguments*>(shared)) {
    constexpr int words = sizeof(Arguments) / 8;
    step = load_fresh(work.first_step) + number;
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
      shared[i] = load_fresh(static_cast<const unsigned long long*>(work.arguments) + i);
    }
    __syncthreads();
  }
};

}  // namespace rnnc
