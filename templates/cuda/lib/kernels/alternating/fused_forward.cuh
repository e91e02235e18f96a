// The forward kernel of a fused step. A strip of R is a block's 8 units of a pair (gate, source).
#pragma once

#include "lib/kernels/alternating/forward.cuh"
#include "lib/kernels/alternating/fused_tile.cuh"

namespace rnnc::alternating {

struct ForwardKRange {
  RNNC_CONSTEXPR int strips(int source) { return kSourcePairs[source]; }
};
using ForwardProduct = FusedProduct<ForwardKRange>;

RNNC_INLINE void forward_step(const Workspace& workspace, int64 step_idx) {
  __shared__ __align__(16) float partials[ForwardProduct::kPartials];
  __shared__ u64 arguments[sizeof(ForwardArguments) / 8];
  griddepcontrol_launch_dependents();
  const FusedTile tile(workspace);
  const ItemIndex item = tile.item(workspace);
  const int k_tiles = factor_pitch(workspace.dim) / kKTile;
  ForwardProduct product;
  unroll<Cell::kSources>([&](auto source) {
    const int64 strips = static_cast<int64>(blockIdx.x) * k_tiles * kSourcePairs[source];
    product.prefetch_weights<source>(workspace.weights[source] + strips * (kStripBytes / 2), 0,
                                     k_tiles);
  });
  const int64 step = ld_relaxed_gpu(workspace.first_step) + step_idx;
  unroll<Cell::kSources>([&](auto source) {
    product.set_rows<source>(workspace.factors[source] + tile.factors(workspace, step, 1), 0);
  });
  const ForwardArguments& a = shared_arguments<ForwardArguments>(workspace, arguments);
  ForwardInputs inputs;
  const bool past_end = step >= a.steps;
  if (item.valid && !past_end) inputs.load(a, workspace, item, step);
  griddepcontrol_wait();
  if (past_end) return;

  States state;
  if (item.valid) {
    repeat<Cell::kStates>(
        [&](int s) { state[s] = ld_relaxed_gpu(workspace.states[s] + item.row); });
  }
  unroll<Cell::kSources>([&](auto source_index) {
    product.multiply<decltype(source_index)::value>(int64{kTileBytes} * k_tiles);
  });
  product.store_partials(partials);
  __syncthreads();
  if (!item.valid) return;
  Gates gate = {};
  repeat<Cell::kDensePairs>([&](int pair) {
    gate[kPairGate[pair]] += ForwardProduct::total(partials, pair, tile.item_idx);
  });
  forward_item(a, workspace, item, step, inputs, gate, state);
}

}  // namespace rnnc::alternating
