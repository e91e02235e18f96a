// PartialPush: sends a warp's partials of a backward product to the blocks that own the units.
#pragma once

#include "lib/exchange/cluster_layout_backward.cuh"
#include "lib/ptx/cluster.cuh"

namespace rnnc::cluster_backward {

using Product = Accumulator<kNumAccumulators>[kWarpTiles][at_least_one(Cell::kSources)];

// The tiles of a warp. Each block starts with its own units, so that at any time blocks push to
// different peers.
struct PartialPush {
  int tile[kWarpTiles];
  u32 to[kWarpTiles];     // the address of a lane's piece in the owner's shared memory
  u32 owner[kWarpTiles];  // the address of that shared memory

  RNNC_MEMBER void prepare(u32 shared, u32 rank, int warp, int lane) {
#pragma unroll
    for (int i = 0; i < kWarpTiles; ++i) {
      const int tile_idx = i * Plan::kWarps + warp, block_tile = tile_idx % kBlockTiles;
      const int block = (tile_idx / kBlockTiles + rank) % Plan::kCluster;
      tile[i] = tile_idx < kTiles ? block * kBlockTiles + block_tile : kTiles;
      owner[i] = mapa(shared, block);
      to[i] = owner[i] + kPartialsOffset + rank * kPartialBytes + (block_tile * 32 + lane) * 16;
    }
  }
  RNNC_MEMBER void send(const Product& product, int source, int buffer_idx) const {
#pragma unroll
    for (int i = 0; i < kWarpTiles; ++i) {
      u32 words[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) words[k] = __float_as_uint(product[i][source].total(k));
      const int offset = buffer_idx * kPartialsBytes + source * Plan::kCluster * kPartialBytes;
      if (kTiles % Plan::kWarps == 0 || tile[i] < kTiles) {
        st_async_v4(to[i] + offset, words, owner[i] + kBarriersOffset + buffer_idx * 8);
      }
    }
  }
};

}  // namespace rnnc::cluster_backward
