// The backward kernels of a fused step. A strip of R maps the gradients of all gates to 8 units.
//
// kSplit neighbouring blocks form a cluster that shares K, since the gradients of all gates are
// several times as large as a state, and a single block would take longer to read them than to read
// R. Each block multiplies its part of K for the units of all of them, and pushes the partials to
// the owner of the units.
#pragma once

#include "lib/kernels/alternating/backward.cuh"
#include "lib/kernels/alternating/fused_tile.cuh"
#include "lib/ptx/cluster.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::alternating {

struct BackwardKRange {
  RNNC_CONSTEXPR int strips(int) { return Plan::kSplit; }
};
using BackwardProduct = FusedProduct<BackwardKRange>;

// The partials of the blocks of a cluster for this block's units.
struct PartialExchange {
  __align__(16) float partials[BackwardProduct::kPartials];
  __align__(16) float received[Cell::kSources][Plan::kSplit][kItems];
  __align__(8) u64 arrived;

  // Before griddepcontrol_wait: peers may push once all blocks of the cluster run.
  RNNC_MEMBER void open() {
    if constexpr (Plan::kSplit > 1) {
      if (threadIdx.x == 0) {
        mbarrier_init(shared_address(&arrived), 1);
        fence_mbarrier_init();
      }
      cluster_sync();
      if (threadIdx.x == 0) mbarrier_arrive_expect_tx(shared_address(&arrived), sizeof received);
    }
  }
  // After the product: adds the totals to the gradient of each source, if the thread has an item.
  RNNC_MEMBER void add(const BackwardProduct& product, int item_idx, const Wait& wait,
                       States& d_state) {
    product.store_partials(partials);
    __syncthreads();
    if constexpr (Plan::kSplit > 1) {
      const u32 rank = cluster_ctarank(), base = shared_address(received);
      const u32 barrier = shared_address(&arrived);
      for (int i = threadIdx.x; i < BackwardProduct::kStrips * kItems / 2; i += blockDim.x) {
        const int strip = i / (kItems / 2), pair = i % (kItems / 2);
        const int source = strip / Plan::kSplit, peer = strip % Plan::kSplit;
        const float2 sum = BackwardProduct::total_pair(partials, strip, 2 * pair);
        const u32 to = base + ((source * Plan::kSplit + rank) * kItems + 2 * pair) * sizeof(float);
        st_async_v2(mapa(to, peer), __float_as_uint(sum.x), __float_as_uint(sum.y),
                    mapa(barrier, peer));
      }
      mbarrier_wait(barrier, 0, wait);
    }
    if (item_idx >= kItems) return;
    repeat<Cell::kSources>([&](int source) {
      if constexpr (Plan::kSplit > 1) {
        repeat<Plan::kSplit>(
            [&](int peer) { d_state[kSourceState[source]] += received[source][peer][item_idx]; });
      } else {
        d_state[kSourceState[source]] += BackwardProduct::total(partials, source, item_idx);
      }
    });
  }
};

// A block's part of K of a source, in k_tiles.
struct KTileRange {
  int all, begin, end;

  RNNC_MEMBER KTileRange(const Workspace& workspace, const FusedTile& tile, int source) {
    all = factor_pitch(workspace.dim) / kKTile * kSourcePairs[source];
    const int each = ceil_div(all, Plan::kSplit);
    begin = tile.tile_idx % Plan::kSplit * each;
    end = minimum(all, begin + each);
  }
};

RNNC_INLINE void prefetch_backward_weights(BackwardProduct& product, const Workspace& workspace,
                                           const FusedTile& tile) {
  unroll<Cell::kSources>([&](auto source) {
    const KTileRange range(workspace, tile, source);
    const int64 strips = static_cast<int64>(blockIdx.x / Plan::kSplit) * range.all * Plan::kSplit;
    product.prefetch_weights<source>(workspace.weights[source] + strips * (kStripBytes / 2),
                                     range.begin, range.end);
  });
}

RNNC_INLINE void set_backward_rows(BackwardProduct& product, const Workspace& workspace,
                                   const FusedTile& tile, int64 step) {
  unroll<Cell::kSources>([&](auto source) {
    const int64 offset = tile.factors(workspace, step, kSourcePairs[source]);
    product.set_rows<source>(workspace.factors[source] + offset,
                             KTileRange(workspace, tile, source).begin);
  });
}

RNNC_INLINE void multiply_backward(BackwardProduct& product, const Workspace& workspace) {
  const int64 bytes = int64{kTileBytes} * (factor_pitch(workspace.dim) / kKTile);
  unroll<Cell::kSources>(
      [&](auto source) { product.multiply<source>(bytes * kSourcePairs[source]); });
}

RNNC_INLINE void backward_step(const Workspace& workspace, int64 step_idx) {
  __shared__ PartialExchange exchange;
  __shared__ u64 arguments[sizeof(BackwardArguments) / 8];
  griddepcontrol_launch_dependents();
  const FusedTile tile(workspace);
  const ItemIndex item = tile.item(workspace);
  BackwardProduct product;
  prefetch_backward_weights(product, workspace, tile);
  exchange.open();
  const int64 step = ld_relaxed_gpu(workspace.first_step) + step_idx;
  set_backward_rows(product, workspace, tile, step);
  const BackwardArguments& a = shared_arguments<BackwardArguments>(workspace, arguments);
  const int64 t = a.steps - 1 - step;
  BackwardInputs inputs;
  const bool past_end = t < 0;
  if (item.valid && !past_end) inputs.load(a, workspace, item, t);
  griddepcontrol_wait();
  if (past_end) return;

  BackwardCarry carry;
  if (item.valid) carry.load_gradients(workspace, item);
  multiply_backward(product, workspace);
  if (item.valid) carry.load_sums(workspace, item);
  const Wait wait{a.watchdog, static_cast<int>(step), kNoStep};
  exchange.add(product, tile.item_idx, wait, carry.d_state);
  if (item.valid) backward_item(a, workspace, item, t, inputs, carry);
}

RNNC_INLINE void backward_end(const Workspace& workspace) {
  __shared__ PartialExchange exchange;
  __shared__ u64 arguments[sizeof(BackwardArguments) / 8];
  const FusedTile tile(workspace);
  const ItemIndex item = tile.item(workspace);
  BackwardProduct product;
  prefetch_backward_weights(product, workspace, tile);
  exchange.open();
  const BackwardArguments& a = shared_arguments<BackwardArguments>(workspace, arguments);
  set_backward_rows(product, workspace, tile, a.steps);
  BackwardCarry carry;
  if (item.valid) carry.load_gradients(workspace, item);
  multiply_backward(product, workspace);
  const Wait wait{a.watchdog, static_cast<int>(a.steps), kNoStep};
  exchange.add(product, tile.item_idx, wait, carry.d_state);
  if (item.valid) backward_last(a, workspace, item, carry.d_state);
}

}  // namespace rnnc::alternating
