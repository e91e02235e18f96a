// PartialPush: sends a warp's partials of a backward product to the blocks that own the units,
// which sum them.
#pragma once

#include "lib/exchange/cluster_layout_backward.cuh"
#include "lib/ptx/cluster.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::cluster_backward {

using Product = Accumulator<kNumAccumulators>[kWarpTiles][at_least_one(Cell::kSources)];

// The tiles of a warp. Each block starts with its own units, so that at any time blocks push to
// different peers.
struct PartialPush {
  int tile[kWarpTiles];
  u32 to[kWarpTiles];     // the address of a lane's piece in the owner's shared memory
  u32 owner[kWarpTiles];  // the address of that shared memory

  RNNC_MEMBER void prepare(u32 shared, u32 rank, int warp, int lane) {
    repeat<kWarpTiles>([&](int i) {
      const int tile_idx = i * Plan::kWarps + warp, block_tile = tile_idx % kBlockTiles;
      const int block = (tile_idx / kBlockTiles + rank) % Plan::kCluster;
      tile[i] = tile_idx < kTiles ? block * kBlockTiles + block_tile : kTiles;
      owner[i] = mapa(shared, block);
      to[i] = owner[i] + kPartialsOffset + rank * kPartialBytes + (block_tile * 32 + lane) * 16;
    });
  }
  RNNC_MEMBER void send(const Product& product, int source, int buffer_idx) const {
    repeat<kWarpTiles>([&](int i) {
      u32 words[4];
      repeat<4>([&](int k) { words[k] = __float_as_uint(product[i][source].total(k)); });
      const int offset = buffer_idx * kPartialsBytes + source * Plan::kCluster * kPartialBytes;
      if (kTiles % Plan::kWarps == 0 || tile[i] < kTiles) {
        st_async_v4(to[i] + offset, words, owner[i] + kBarriersOffset + buffer_idx * 8);
      }
    });
  }
};

// Sums over all blocks of the gradient of each source of an item.
using Received = real[kItems][at_least_one(Cell::kSources)];

// The sum of what n blocks pushed for an item: a tree of additions in a fixed order.
template <int n>
RNNC_INLINE float sum_partials(const char* partials) {
  if constexpr (n == 1) {
    return *reinterpret_cast<const float*>(partials);
  } else {
    return sum_partials<n / 2>(partials) +
           sum_partials<n - n / 2>(partials + n / 2 * kPartialBytes);
  }
}

// Waits for what iteration i - 1 pushed, and sums it for this thread's items.
RNNC_INLINE void receive_partials(Received& received, const bool (&active)[kItems], int i,
                                  u32 barriers, int64 watchdog) {
  if constexpr (Cell::kSources > 0) {
    const int buffer_idx = (i - 1) & 1, first = threadIdx.x * static_cast<int>(sizeof(float));
    const char* from =
        shared + launder(static_cast<u32>(kPartialsOffset + buffer_idx * kPartialsBytes + first));
    mbarrier_wait(barriers + buffer_idx * 8, (i - 1) >> 1 & 1, Wait{watchdog, i, kNoStep});
    repeat<kItems>([&](int item) {
      repeat<Cell::kSources>([&](int source) {
        const char* partials =
            from + source * Plan::kCluster * kPartialBytes + item * Plan::kWarps * 128;
        if (active[item]) received[item][source] = sum_partials<Plan::kCluster>(partials);
      });
    });
  }
}

}  // namespace rnnc::cluster_backward
