// The forward kernels of an alternating plan for a cell with stages, where the matrix library
// multiplies.
#pragma once

#include "lib/kernels/alternating/library_call.cuh"
#include "lib/stages/alternating/forward.cuh"

namespace rnnc::alternating {

// Runs some stages of a step, up to the next product.
template <int first_stage, int end_stage>
RNNC_INLINE void staged_forward_step(const StagedWorkspace& workspace, int64 step_idx) {
  const Call<StagedForwardArguments> call(workspace, step_idx);
  if (call.step >= call.a.steps) return;
  unroll<end_stage, first_stage>([&](auto index) {
    constexpr int stage = decltype(index)::value;
    compute_statistics<stage>(workspace, Cell::kStatistics);
    for_items(workspace, [&](const ItemIndex& item) {
      ForwardInputs inputs;
      inputs.load(call.a, workspace, item, call.step);
      forward_stage<stage, first_stage>(call.a, workspace, item, call.step, inputs);
    });
  });
}

}  // namespace rnnc::alternating
