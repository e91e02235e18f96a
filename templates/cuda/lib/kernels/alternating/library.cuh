// The kernels of an alternating plan whose products are computed by the matrix library.
#pragma once

#include "lib/kernels/alternating/backward.cuh"
#include "lib/kernels/alternating/forward.cuh"

namespace rnnc::alternating {

// The arguments that the init kernel wrote, and the step of a node. NOTE: volatile loads, so that
// all are in flight at once; loading each field at its use would cost the latency of L2 each time.
template <typename Arguments>
struct Call {
  Arguments a;
  int64 step;

  RNNC_MEMBER Call(const Workspace& workspace, int64 step_idx) {
    constexpr int words = sizeof(Arguments) / 8;
    u64 word[words];
    const int first_step = ld_global_s32(workspace.first_step);
#pragma unroll
    for (int i = 0; i < words; ++i) {
      word[i] = ld_global_u64(static_cast<const char*>(workspace.arguments) + 8 * i);
    }
    memcpy(&a, word, sizeof a);
    step = first_step + step_idx;
  }
};

RNNC_INLINE void forward_step(const Workspace& workspace, int64 step_idx) {
  const ItemIndex item(workspace);
  if (!item.valid) return;
  Gates gate = {};
  States state;
  // These loads are in flight while the arguments are loaded.
#pragma unroll
  for (int s = 0; s < kStates; ++s) state[s] = workspace.states[s][item.row];
  const int64 column =
      (static_cast<int64>(item.n) * workspace.batch + item.b) * workspace.dim + item.d;
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    const real* product = workspace.products[source] + column * kSourcePairs[source];
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      gate[kPairGate[kSourceFirstPair[source] + i]] += product[i];
    }
  }
  const Call<ForwardArguments> call(workspace, step_idx);
  if (call.step >= call.a.steps) return;
  ForwardInputs inputs;
  inputs.load(call.a, workspace, item, call.step);
  forward_item(call.a, workspace, item, call.step, inputs, gate, state);
}

// Adds the products of the step after: each pair's product adds to the gradient of its source.
RNNC_INLINE void add_products(const Workspace& workspace, const ItemIndex& item, States& d_state) {
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      d_state[kSourceState[source]] +=
          workspace.products[source][factor_offset(workspace, item, 0, kSourcePairs[source], i)];
    }
  }
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
#pragma unroll
  for (int s = 0; s < kStates; ++s) d_state[s] = workspace.states[s][item.row];
  add_products(workspace, item, d_state);
  backward_last(*static_cast<const BackwardArguments*>(workspace.arguments), workspace, item,
                d_state);
}

}  // namespace rnnc::alternating
