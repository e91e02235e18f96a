// The partials of a stage's backward product: as in lib/kernels/grid_partials_backward.cuh, of the
// stage's sources alone, which begin at the first place.
#pragma once

#include "lib/stages/grid/items_backward.cuh"

namespace rnnc::grid_backward {

constexpr int kSourcePartials = kWarpPartials / Cell::kSources;  // of a warp

// The stages that need products, in the order in which they run; the products are counted.
RNNC_CONSTEXPR int products_before(int stage) {
  int count = 0;
  for (int i = 0; i < stage; ++i) count += sources_of(i) > 0;
  return count;
}
constexpr int kProducts = products_before(Cell::kStages + 1);  // per step
RNNC_CONSTEXPR int stage_of_product(int number) {
  int stage = 0;
  while (sources_of(stage) == 0 || products_before(stage) != number % kProducts) ++stage;
  return stage;
}
// What a block receives of a product from all blocks of its cluster.
RNNC_CONSTEXPR int received_bytes(int product) {
  return 4 * Plan::kCluster * sources_of(stage_of_product(product)) * Plan::kUnits *
         Sizes::kPhaseRows;
}

template <int stage>
struct StagePartials {
  static constexpr int kCount = sources_of(stage), kFirst = first_source_of(stage);

  static RNNC_MEMBER void store(float* partials, const StagedProduct::Sums<stage>& sum, int warp,
                                int lane) {
    unroll<StagedProduct::tiles_of(stage) * Sizes::kPhaseTiles * 2>([&](auto index) {
      constexpr int half = index % 2, n = index / 2 % Sizes::kPhaseTiles;
      constexpr int tile = index / 2 / Sizes::kPhaseTiles;
      constexpr int unit = tile * 16 + half * 8;  // of [source][unit of the cluster]
      float* const to =
          partials + warp * kWarpPartials + (unit + (lane >> 2)) * kRowPitch + n * kTileRows;
      *reinterpret_cast<float2*>(to + 2 * (lane & 3)) =
          make_float2(sum[tile][n].total(2 * half), sum[tile][n].total(2 * half + 1));
    });
  }

  // Adds the warps' partials and sends them to the blocks that own the units.
  static RNNC_MEMBER void send(const float* partials, u32 inbox, u32 barrier, int rank) {
    constexpr int quarters = Sizes::kPhaseRows / 4, count = kCount * kClusterUnits * quarters;
#pragma unroll
    for (int i = 0; i < ceil_div(count, Sizes::kThreads); ++i) {
      const int number = static_cast<int>(threadIdx.x) + i * Sizes::kThreads;
      if (count % Sizes::kThreads != 0 && number >= count) break;
      const int unit = number % kClusterUnits, quarter = number / kClusterUnits % quarters;
      const int source = number / kClusterUnits / quarters;
      const int offset = source * kSourcePartials + unit * kRowPitch + 4 * quarter;
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
  // Gives each other block its own partials, and waits for this block's. Products of all stages are
  // counted, and take the two inboxes in turn. A peer sends for the product after the next one once
  // it has all of the next one, from this block too: this block sends that after the barrier that
  // follows the reads of its inbox, and after the last line here.
  static RNNC_MEMBER void exchange(const float* partials, int product_idx, int rank,
                                   const Wait& wait) {
    const int buffer_idx = product_idx & 1;
    const u32 barrier = shared_address(shared + kBarrierOffset) + 8 * buffer_idx;
    send(partials, shared_address(shared + kInboxOffset + buffer_idx * kInboxBytes), barrier, rank);
    mbarrier_wait(barrier, product_idx >> 1 & 1, wait);
    constexpr int next = received_bytes(products_before(stage) + 2);
    if (threadIdx.x == 0) mbarrier_arrive_expect_tx(barrier, next);
  }

  // Adds a product's partials: gradients of states, or of what called gates multiplied.
  static RNNC_MEMBER void add(Item& it, Values& value, const float* partials, int buffer_idx) {
    constexpr int senders = Plan::kCluster > 1 ? Plan::kCluster : Plan::kWarps;
    constexpr int stride = Plan::kCluster > 1 ? kBlockPartials : kWarpPartials;
    const char* const inbox = shared + kInboxOffset + buffer_idx * kInboxBytes;
    const float* from = Plan::kCluster > 1 ? reinterpret_cast<const float*>(inbox) : partials;
    repeat<kCount>([&](int i) {
      float total = 0;
      repeat<senders>([&](int k) {
        total += from[k * stride + i * (stride / Cell::kSources) + it.partial_offset];
      });
      if (stage == Cell::kStages) {
        it.d_state[kSourceState[kFirst + i]] += total;
      } else {
        value[kSourceValue[kFirst + i]] = total;
      }
    });
  }
};

}  // namespace rnnc::grid_backward
