// The backward kernels of an alternating plan whose products are computed by the matrix library.
#pragma once

#include "lib/kernels/alternating/backward.cuh"
#include "lib/kernels/alternating/library_call.cuh"

namespace rnnc::alternating {

// Adds the products of the step after: each pair's product adds to the gradient of its source.
RNNC_INLINE void add_products(const Workspace& workspace, const ItemIndex& item, States& d_state) {
  for_source_pairs([&](int source, int i) {
    d_state[kSourceState[source]] +=
        workspace.products[source][factor_offset(workspace, item, 0, kSourcePairs[source], i)];
  });
}

RNNC_INLINE void backward_step(const Workspace& workspace, int64 step_idx) {
  const ItemIndex item(workspace);
  if (!item.valid) return;
  BackwardCarry carry;
  carry.load_gradients(workspace, item);
  carry.load_sums(workspace, item);
  add_products(workspace, item, carry.d_state);
  const Call<BackwardArguments> call(workspace, step_idx);
  const int64 t = call.a.steps - 1 - call.step;
  if (t < 0) return;
  BackwardInputs inputs;
  inputs.load(call.a, workspace, item, t);
  backward_item(call.a, workspace, item, t, inputs, carry);
}

RNNC_INLINE void backward_end(const Workspace& workspace) {
  const ItemIndex item(workspace);
  if (!item.valid) return;
  States d_state;
  repeat<Cell::kStates>([&](int s) { d_state[s] = workspace.states[s][item.row]; });
  add_products(workspace, item, d_state);
  backward_last(*static_cast<const BackwardArguments*>(workspace.arguments), workspace, item,
                d_state);
}

}  // namespace rnnc::alternating
