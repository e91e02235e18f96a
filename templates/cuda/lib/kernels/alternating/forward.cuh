// A forward step of an alternating plan without its product: what it reads and writes.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/cell/unweighted.cuh"
#include "lib/kernels/alternating/masks.cuh"
#include "lib/kernels/alternating/workspace.cuh"

namespace rnnc::alternating {

// What a forward step reads from the call, and not from the step before: the gates from bias and
// input, and weights.
struct ForwardInputs {
  Gates gate;
  Params param;
  Diagonal diagonal;
  ForwardMasks masks;

  RNNC_MEMBER void load(const ForwardArguments& a, const Workspace& workspace,
                        const ItemIndex& item, int64 t) {
    const int64 unit = item.unit, plane = workspace.heads * workspace.dim;
    const TimeOrder time(a.steps, Order(item.n, workspace.heads));
    Vec<Element, Cell::kInputGates> x;
    const Element* wx =
        a.wx + time.at(t) * a.wx_time + item.b * a.wx_row + unit * Cell::kInputGates;
    x.load(wx);
    if (t + 1 < a.steps) prefetch_l2(wx + time.stride(a.wx_time));
    masks.load(a, time, t, item.b, unit);
    load_unit_weights(param, diagonal, a, plane, unit);
    repeat<Cell::kGates>([&](int g) { gate[g] = 0; });
    repeat<Cell::kBiasGates>([&](int i) {
      if (a.bias) gate[kBias[i]] += to_real(a.bias[i * plane + unit]);
    });
    repeat<Cell::kInputGates>([&](int g) { gate[g] += x[g]; });
    Unweighted<1, 1> unweighted;
    unweighted.place_row(0, item.b);
    unweighted.place_unit(0, item.n, item.d);
    unweighted.load(a, time, t, a.steps);
    unweighted.set(gate, 0, 0);
  }
};

RNNC_INLINE void forward_begin(const ForwardArguments& a, const Workspace& workspace) {
  const ItemIndex item(workspace);
  begin(a, workspace);
  if (!item.valid) return;
  States state;
  repeat<Cell::kStates>([&](int s) {
    const Element value = a.initial_states[s][item.row];
    state[s] = to_real(value);
    if (a.steps == 0) a.last[s][item.row] = value;
  });
  const TimeOrder time(a.steps, Order(item.n, workspace.heads));
  ForwardMasks masks;
  masks.load(a, time, 0, item.b, item.unit);
  masks.begin_states(a, time, state);
  repeat<Cell::kStates>([&](int s) { workspace.states[s][item.row] = state[s]; });
  repeat<Cell::kSources>([&](int source) {
    workspace.factors[source][factor_offset(workspace, item, 0, 1, 0)] =
        to_element<Element>(state[kSourceState[source]]);
  });
}

// The cell's equations and everything that a step writes; `gate` holds the products.
RNNC_INLINE void forward_item(const ForwardArguments& a, const Workspace& workspace,
                              const ItemIndex& item, int64 t, ForwardInputs& inputs,
                              Gates& gate, States& state) {
  repeat<Cell::kGates>([&](int g) { gate[g] += inputs.gate[g]; });
  add_diagonal(gate, inputs.diagonal, state);
  Saved saved;
  States next;
  with_sigmoid<false>([&](auto& sigmoid) {
    apply_pointwise_forward(gate, state, inputs.param, next, saved, sigmoid);
  });
  inputs.masks.select(next, state);
  assign(state, next);

  const TimeOrder time(a.steps, Order(item.n, workspace.heads));
  const int64 t_offset = time.at(t) * workspace.size() + item.row;
  repeat<Cell::kSources>([&](int source) {
    workspace.factors[source][factor_offset(workspace, item, t + 1, 1, 0)] =
        to_element<Element>(state[kSourceState[source]]);
  });
  repeat<Cell::kStates>([&](int s) {
    workspace.states[s][item.row] = state[s];
    const real result = inputs.masks.results(state)[s];
    if (a.states[s]) a.states[s][t_offset] = to_element<Element>(result);
    if (t == a.steps - 1) a.last[s][item.row] = to_element<Element>(state[s]);
  });
  if (Cell::kSaved && a.saved) {
    pack_saved(saved).store(a.saved + t_offset * Cell::kSaved);
  }
}

}  // namespace rnnc::alternating
