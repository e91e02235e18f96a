// The backward kernels of an alternating plan for a cell with stages, which multiply themselves.
#pragma once

#include "lib/stages/alternating/backward.cuh"
#include "lib/stages/alternating/fused_product.cuh"

namespace rnnc::alternating {

// A strip of R maps the gradients of all gates of a source to a block's 8 units.
struct SourceStrips {
  RNNC_CONSTEXPR int of(int) { return 1; }
};
template <int stage>
using ReturnedProduct = StageProduct<stage, SourceStrips, true>;

template <int stage>
RNNC_INLINE void read_products(Returned& product, const float* partials, int item_idx) {
  for_sources_of<stage>([&](auto source) {
    constexpr int s = decltype(source)::value;
    constexpr int strip = ReturnedProduct<stage>::first_strip(s);
    product[s] = ReturnedProduct<stage>::Product::total(partials, strip, item_idx);
  });
}

// Runs some stages of a step, up to the next product.
template <int first_stage, int end_stage>
RNNC_INLINE void staged_backward_step(const StagedWorkspace& workspace, int64 step_idx) {
  constexpr int before = product_stage(first_stage);
  __shared__ __align__(16) float partials[ReturnedProduct<before>::Product::kPartials];
  __shared__ u64 words[sizeof(StagedBackwardArguments) / 8];
  griddepcontrol_launch_dependents();
  const FusedTile tile(workspace);
  const ItemIndex item = tile.item(workspace);
  const int64 step = ld_relaxed_gpu(workspace.first_step) + step_idx;
  ReturnedProduct<before> own;
  own.begin(workspace, tile, step);
  const auto& a = shared_arguments<StagedBackwardArguments>(workspace, words);
  const int64 t = a.steps - 1 - step;
  BackwardInputs inputs;
  if (item.valid && t >= 0) inputs.load(a, workspace, item, t);
  griddepcontrol_wait();
  if (t < 0) return;
  own.run(workspace, partials);
  if (!item.valid) return;
  Returned product = {};
  read_products<before>(product, partials, tile.item_idx);
  unroll<end_stage, first_stage>([&](auto index) {
    constexpr int stage = decltype(index)::value;
    backward_stage<stage, first_stage>(a, workspace, item, t, inputs, product);
  });
}

RNNC_INLINE void staged_backward_end(const StagedWorkspace& workspace) {
  using Product = ReturnedProduct<Cell::kStages>;
  __shared__ __align__(16) float partials[Product::Product::kPartials];
  __shared__ u64 words[sizeof(StagedBackwardArguments) / 8];
  const FusedTile tile(workspace);
  const ItemIndex item = tile.item(workspace);
  const auto& a = shared_arguments<StagedBackwardArguments>(workspace, words);
  Product own;
  own.begin(workspace, tile, a.steps);
  own.run(workspace, partials);
  if (!item.valid) return;
  Returned product = {};
  read_products<Cell::kStages>(product, partials, tile.item_idx);
  States d_state;
  repeat<Cell::kStates>([&](int s) { d_state[s] = workspace.states[s][item.row]; });
  add_state_products(d_state, product);
  backward_last(a, workspace, item, d_state);
}

}  // namespace rnnc::alternating
