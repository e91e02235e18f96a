// A backward step of an alternating plan without its product: what it reads and writes.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/cell/unweighted.cuh"
#include "lib/kernels/alternating/masks.cuh"
#include "lib/kernels/alternating/workspace.cuh"

namespace rnnc::alternating {

// What a backward step reads from the call: d_state is the gradient of the step's output.
struct BackwardInputs {
  Vec<Element, Cell::kSaved> saved;
  States before, after, d_state;
  Params param;
  Diagonal diagonal;
  BackwardMasks masks;
  Unweighted<1, 1> unweighted;

  RNNC_MEMBER void load(const BackwardArguments& a, const Workspace& workspace,
                        const ItemIndex& item, int64 t) {
    const int64 unit = item.unit, plane = workspace.heads * workspace.dim,
                size = workspace.batch * plane;
    const TimeOrder time(a.steps, Order(item.n, workspace.heads));
    const int64 t_offset = time.at(t) * size + item.row, step_stride = time.stride(size);
    masks.load(a, time, t, item.b, unit);
    unweighted.place_row(0, item.b);
    unweighted.place_unit(0, item.n, item.d);
    unweighted.load(a, time, t, a.steps);
    saved.load(a.saved + t_offset * Cell::kSaved);
    if (t > 0 && Cell::kSaved) prefetch_l2(a.saved + (t_offset - step_stride) * Cell::kSaved);
    repeat<Cell::kStates>([&](int s) {
      before[s] = after[s] = d_state[s] = 0;
      if (kReads[s]) {
        after[s] = to_real(a.states[s][t_offset]);
        before[s] = to_real(t > 0 ? a.states[s][t_offset - step_stride]
                                  : a.initial_states[s][item.row]);
        if (t > 1) prefetch_l2(a.states[s] + t_offset - 2 * step_stride);
      }
      if (a.d_states[s]) {
        const Element* d =
            a.d_states[s] + time.at(t) * a.d_states_time[s] + item.b * a.d_states_row[s] + unit;
        d_state[s] = to_real(*d);
        if (t > 0) prefetch_l2(d - time.stride(a.d_states_time[s]));
      }
    });
    States last;
    assign(last, before);
    masks.select_before(a, before, last);
    load_unit_weights(param, diagonal, a, plane, unit);
  }
};

// What a backward step reads from the step that ran before it, except products.
struct BackwardCarry {
  States d_state;
  GradientSums sums;

  RNNC_MEMBER void load_gradients(const Workspace& workspace, const ItemIndex& item) {
    repeat<Cell::kStates>(
        [&](int s) { d_state[s] = ld_relaxed_gpu(workspace.states[s] + item.row); });
  }
  // Loaded last, since they are needed last.
  RNNC_MEMBER void load_sums(const Workspace& workspace, const ItemIndex& item) {
    const int64 size = workspace.size();
    repeat<Cell::kSums>(
        [&](int i) { sums[i] = ld_relaxed_gpu(workspace.sums + i * size + item.row); });
  }
};

RNNC_INLINE void backward_begin(const BackwardArguments& a, const Workspace& workspace) {
  const ItemIndex item(workspace);
  begin(a, workspace);
  if (!item.valid) return;
  repeat<Cell::kStates>([&](int s) {
    workspace.states[s][item.row] = a.d_last[s] ? to_real(a.d_last[s][item.row]) : real(0);
  });
  // The last step receives no gradient through R.
  for_source_pairs([&](int source, int i) {
    const int64 offset = factor_offset(workspace, item, 0, kSourcePairs[source], i);
    if constexpr (Plan::kFused) {
      workspace.factors[source][offset] = to_element<Element>(real(0));
    } else {
      workspace.products[source][offset] = 0;
    }
  });
  const int64 size = workspace.size();
  repeat<Cell::kSums>([&](int i) {
    workspace.sums[i * size + item.row] = 0;
    workspace.totals[i * size + item.row] = 0;
  });
}

// The backward pointwise map and everything that step t writes; carry.d_state holds the products.
RNNC_INLINE void backward_item(const BackwardArguments& a, const Workspace& workspace,
                               const ItemIndex& item, int64 t, const BackwardInputs& inputs,
                               BackwardCarry& carry) {
  States& d_state = carry.d_state;
  Gates d_gate;
  Params d_param;
  ReadValues saved;
  States carried;
  unpack_saved(saved, inputs.saved);
  inputs.unweighted.set_read(saved, 0, 0);
  const auto& masks = inputs.masks;
  if (masks.has_restarted()) masks.end_gradient(a, d_state);
  assign(carried, d_state);
  repeat<Cell::kStates>([&](int s) { d_state[s] += inputs.d_state[s]; });
  apply_pointwise_backward(saved, inputs.before, inputs.after, inputs.param, d_state, d_gate,
                           d_param);
  masks.select_gradients(d_state, d_gate, d_param, carried);

  for_source_pairs([&](int source, int i) {
    const int pairs = kSourcePairs[source];
    workspace.factors[source][factor_offset(workspace, item, a.steps - t, pairs, i)] =
        to_element<Element>(d_gate[kPairGate[kSourceFirstPair[source] + i]]);
  });
  add_diagonal_gradient(d_state, inputs.diagonal, d_gate);
  repeat<Cell::kStates>([&](int s) { workspace.states[s][item.row] = d_state[s]; });
  const int64 size = workspace.size();
  const TimeOrder time(a.steps, Order(item.n, workspace.heads));
  PackedGates(d_gate).store(a, time.at(t) * size + item.row);
  if (!masks.holds()) add_to_sums(carry.sums, d_gate, d_param, inputs.before);
  const bool ends = t % kPartSteps == 0;
  repeat<Cell::kSums>([&](int i) {
    if (ends) {
      SumOverTime* total = workspace.totals + i * size + item.row;
      *total = ld_relaxed_gpu(total) + SumOverTime(carry.sums[i]);
    }
    workspace.sums[i * size + item.row] = ends ? real(0) : carry.sums[i];
  });
}

// The gradients of the initial states, and the sums over time, summed over the batch in order.
RNNC_INLINE void backward_last(const BackwardArguments& a, const Workspace& workspace,
                               const ItemIndex& item, States& d_state) {
  BackwardMasks masks;
  masks.load(a, TimeOrder(a.steps, Order(item.n, workspace.heads)), -1, item.b, item.unit);
  if (masks.has_restarted()) masks.end_gradient(a, d_state);
  repeat<Cell::kStates>(
      [&](int s) { a.d_initial_states[s][item.row] = to_element<Element>(d_state[s]); });
  if (item.b != 0) return;
  const int64 plane = workspace.heads * workspace.dim, size = workspace.batch * plane;
  for (int i = 0; i < Cell::kSums; ++i) {
    SumOverTime total = 0;
    for (int64 b = 0; b < workspace.batch; ++b)
      total += workspace.totals[i * size + b * plane + item.row];
    a.sums[i * plane + item.row] = total;
  }
}

}  // namespace rnnc::alternating
