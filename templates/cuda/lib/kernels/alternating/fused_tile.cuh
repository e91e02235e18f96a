// FusedTile: what a block of a fused step computes, 8 units of a head and kRows batch rows.
//
// A fused step is one kernel for the product with R and the pointwise map.
#pragma once

#include "lib/kernels/alternating/fused_product.cuh"
#include "lib/kernels/alternating/workspace.cuh"

namespace rnnc::alternating {

// The units and rows of a block, and the index of a thread's item; some threads have none.
struct FusedTile {
  int tiles;  // per head
  int head, tile_idx, first_row, item_idx;

  RNNC_MEMBER explicit FusedTile(const Workspace& workspace) {
    tiles = gridDim.x / workspace.heads;
    head = blockIdx.x / tiles;
    tile_idx = blockIdx.x - head * tiles;
    first_row = blockIdx.y * kRows;
    item_idx = threadIdx.x;
  }
  // The offset of this block's tiles of rows among the factors of a source.
  RNNC_MEMBER int64 factors(const Workspace& workspace, int64 step, int pairs) const {
    return factor_tile(workspace, head, first_row / kTileRows, step, pairs);
  }
  RNNC_MEMBER ItemIndex item(const Workspace& workspace) const {
    return ItemIndex(workspace, head, 8 * tile_idx + (item_idx & 7), first_row + (item_idx >> 3),
                     item_idx < kItems);
  }
};

// Copies the arguments of the call to shared memory, where they need no registers during the
// product. Includes a barrier of the block.
template <typename Arguments>
RNNC_INLINE const Arguments& shared_arguments(const Workspace& workspace, u64* shared) {
  constexpr int words = sizeof(Arguments) / 8;
  repeat<ceil_div(words, 32 * Plan::kWarps)>([&](int part) {
    const int i = threadIdx.x + part * 32 * Plan::kWarps;
    if (i < words) {
      shared[i] = ld_relaxed_gpu(static_cast<const u64*>(workspace.arguments) + i);
    }
  });
  __syncthreads();
  return *reinterpret_cast<const Arguments*>(shared);
}

}  // namespace rnnc::alternating
