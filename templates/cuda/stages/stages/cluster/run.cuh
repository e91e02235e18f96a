// What the kernels of both directions of a cluster plan do for cells with stages.
#pragma once

#include "lib/cell/time.cuh"
#include "lib/stages/cluster/exchanges.cuh"

namespace rnnc {

// Clears the first bytes of shared memory, and initialises the mbarriers of all exchanges, of which
// the first is at `barriers`. All threads of a block call this; a cluster_sync follows.
template <int bytes, int threads>
RNNC_INLINE void begin_shared(char* shared, u32 barriers) {
  for (int i = threadIdx.x; i < bytes / 4; i += threads) reinterpret_cast<u32*>(shared)[i] = 0u;
  __syncthreads();
  if (threadIdx.x == 0) {
    repeat<kExchanges>([&](int i) { mbarrier_pair_init(barriers + i * kBarrierPairBytes); });
  }
}

// Runs all steps of a block's head by a `Block`, which is made from the arguments.
template <typename Block, typename Arguments>
RNNC_INLINE void run_head_by(const Arguments& a) {
  in_order(a.first_head + blockIdx.y, a.heads, [&](const Order& order) {
    Block block(a);
    block.load(order);
    block.begin();
    block.run_steps();
    block.end();
  });
}

}  // namespace rnnc
