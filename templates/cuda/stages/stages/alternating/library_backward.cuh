// The backward kernels of an alternating plan for a cell with stages, where the matrix library
// multiplies.
#pragma once

#include "lib/kernels/alternating/library_call.cuh"
#include "lib/stages/alternating/backward.cuh"

namespace rnnc::alternating {

// Runs some stages of a step, up to the next product.
template <int first_stage, int end_stage>
RNNC_INLINE void staged_backward_step(const StagedWorkspace& workspace, int64 step_idx) {
  const Call<StagedBackwardArguments> call(workspace, step_idx);
  const int64 t = call.a.steps - 1 - call.step;
  if (t < 0) return;
  unroll<end_stage, first_stage>([&](auto index) {
    constexpr int stage = decltype(index)::value;
    compute_statistics<stage>(workspace, Cell::kStageSums);
    for_items(workspace, [&](const ItemIndex& item) {
      BackwardInputs inputs;
      inputs.load(call.a, workspace, item, t);
      Returned product;
      load_products<product_stage(first_stage)>(product, workspace, item);
      backward_stage<stage, first_stage>(call.a, workspace, item, t, inputs, product);
    });
  });
}

RNNC_INLINE void staged_backward_end(const StagedWorkspace& workspace) {
  const ItemIndex item(workspace);
  if (!item.valid) return;
  Returned product;
  load_products<Cell::kStages>(product, workspace, item);
  States d_state;
  repeat<Cell::kStates>([&](int s) { d_state[s] = workspace.states[s][item.row]; });
  add_state_products(d_state, product);
  const auto& a = *static_cast<const StagedBackwardArguments*>(workspace.arguments);
  backward_last(a, workspace, item, d_state);
}

}  // namespace rnnc::alternating
