// The forward kernels of an alternating plan whose products are computed by the matrix library.
#pragma once

#include "lib/kernels/alternating/forward.cuh"
#include "lib/kernels/alternating/library_call.cuh"

namespace rnnc::alternating {

RNNC_INLINE void forward_step(const Workspace& workspace, int64 step_idx) {
  const ItemIndex item(workspace);
  if (!item.valid) return;
  Gates gate = {};
  States state;
  // These loads are in flight while the arguments are loaded.
  repeat<Cell::kStates>([&](int s) { state[s] = workspace.states[s][item.row]; });
  const int64 column =
      (static_cast<int64>(item.n) * workspace.batch + item.b) * workspace.dim + item.d;
  for_source_pairs([&](int source, int i) {
    const real* product = workspace.products[source] + column * kSourcePairs[source];
    gate[kPairGate[kSourceFirstPair[source] + i]] += product[i];
  });
  const Call<ForwardArguments> call(workspace, step_idx);
  if (call.step >= call.a.steps) return;
  ForwardInputs inputs;
  inputs.load(call.a, workspace, item, call.step);
  forward_item(call.a, workspace, item, call.step, inputs, gate, state);
}

}  // namespace rnnc::alternating
