// The partials of a backward product of a grid plan: how warps store them, blocks of a cluster send
// them to each other, and items add them.
#pragma once

#include "lib/kernels/grid_layout_backward.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::grid_backward {

RNNC_INLINE void store_partials(float* partials, const Product::Accumulators& sum, int warp,
                                int lane) {
  static_assert(Product::kTiles == Cell::kSources * KRange::tiles(0));
  unroll<Product::kTiles * Sizes::kPhaseTiles * 2>([&](auto index) {
    constexpr int half = index % 2, n = index / 2 % Sizes::kPhaseTiles;
    constexpr int tile = index / 2 / Sizes::kPhaseTiles;
    constexpr int unit = tile * 16 + half * 8;  // of [source][unit of the cluster]
    float* to = partials + warp * kWarpPartials + (unit + (lane >> 2)) * kRowPitch + n * kTileRows;
    *reinterpret_cast<float2*>(to + 2 * (lane & 3)) =
        make_float2(sum[tile][n].total(2 * half), sum[tile][n].total(2 * half + 1));
  });
}

// Adds the warps' partials and sends them to the blocks that own the units.
RNNC_INLINE void send_partials(const float* partials, u32 inbox, u32 barrier, int rank) {
  constexpr int quarters = Sizes::kPhaseRows / 4, count = Cell::kSources * kClusterUnits * quarters;
#pragma unroll
  for (int i = 0; i < ceil_div(count, Sizes::kThreads); ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * Sizes::kThreads;
    if (count % Sizes::kThreads != 0 && number >= count) break;
    const int unit = number % kClusterUnits, quarter = number / kClusterUnits % quarters;
    const int source = number / kClusterUnits / quarters;
    const int offset = source * (kWarpPartials / Cell::kSources) + unit * kRowPitch + 4 * quarter;
    float total[4] = {};
    repeat<Plan::kWarps>([&](int w) {
      Vec<float, 4> access;
      access.read(partials + w * kWarpPartials + offset);
      repeat<4>([&](int k) { total[k] += access[k]; });
    });
    const int owner = unit / Plan::kUnits, unit_idx = unit % Plan::kUnits;
    const int block = (rank * Cell::kSources + source) * quarters + quarter;
    const int to = 4 * (block * Plan::kUnits + unit_idx);
    const u32 words[4] = {__float_as_uint(total[0]), __float_as_uint(total[1]),
                          __float_as_uint(total[2]), __float_as_uint(total[3])};
    st_async_v4(mapa(inbox + 4 * to, owner), words, mapa(barrier, owner));
  }
}

// Of a product's partials, gives each other block its own, and waits for this block's.
RNNC_INLINE void exchange_partials(const float* partials, int product_idx, int rank,
                                   const Wait& wait) {
  const int buffer_idx = product_idx & 1;
  const u32 barrier = shared_address(shared + kBarrierOffset) + 8 * buffer_idx;
  send_partials(partials, shared_address(shared + kInboxOffset + buffer_idx * kInboxBytes), barrier,
                rank);
  // Expects the next use of this buffer before any peer can send for it: a peer that sends has read
  // what this block publishes after its next barrier.
  mbarrier_wait(barrier, product_idx >> 1 & 1, wait);
  if (threadIdx.x == 0) mbarrier_arrive_expect_tx(barrier, kReceivedBytes);
}

// Adds a product's partials to the gradients of the states of a phase's items.
RNNC_INLINE void add_partials(Items& items, int phase, const float* partials, int buffer_idx) {
  constexpr int senders = Plan::kCluster > 1 ? Plan::kCluster : Plan::kWarps;
  constexpr int stride = Plan::kCluster > 1 ? kBlockPartials : kWarpPartials;
  const char* const inbox = shared + kInboxOffset + buffer_idx * kInboxBytes;
  const float* from = Plan::kCluster > 1 ? reinterpret_cast<const float*>(inbox) : partials;
  for_items(items, phase, [&](Item& it) {
    repeat<Cell::kSources>([&](int source) {
      float total = 0;
      repeat<senders>([&](int i) {
        total += from[i * stride + source * (stride / Cell::kSources) + it.partial_offset];
      });
      it.d_state[kSourceState[source]] += total;
    });
  });
}

}  // namespace rnnc::grid_backward
