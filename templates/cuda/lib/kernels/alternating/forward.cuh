// A forward step of an alternating plan but for its product: what it takes and what it leaves.
#pragma once

namespace rnnc {

// What a forward step takes from the call, and nothing from the step before: the gates without what
// depends on states, and weights.
struct ForwardInputs {
  real gate[at_least_one(kGates)], param[at_least_one(kParams)];
  real diagonal[at_least_one(kDiagonalPairs)];

  RNNC_MEMBER void load(const ForwardArguments& a, const Work& work, const Place& place, int64 t) {
    const int64 unit = place.unit, plane = work.heads * work.dim;
    Row<Element, kInputGates> x;
    const Element* wx = a.wx + t * a.wx_time + place.b * a.wx_row + unit * kInputGates;
    x.load(wx);
    if (t + 1 < a.steps) prefetch(wx + a.wx_time);
#pragma unroll
    for (int i = 0; i < kParams; ++i) param[i] = to_real(a.params[i][unit]);
#pragma unroll
    for (int i = 0; i < kDiagonalPairs; ++i) diagonal[i] = to_real(a.R_diag[i * plane + unit]);
#pragma unroll
    for (int g = 0; g < kGates; ++g) gate[g] = 0;
#pragma unroll
    for (int i = 0; i < kBiasGates; ++i) {
      if (a.bias) gate[kBias[i]] += to_real(a.bias[i * plane + unit]);
    }
#pragma unroll
    for (int g = 0; g < kInputGates; ++g) gate[g] += x[g];
  }
};

RNNC_INLINE void forward_begin(const ForwardArguments& a, const Work& work) {
  const Place place(work);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *static_cast<ForwardArguments*>(work.arguments) = a;
    *work.first_step = 0;
  }
  if (!place.given) return;
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    const Element value = a.initial[s][place.row];
    work.states[s][place.row] = to_real(value);
    if (a.steps == 0) a.last[s][place.row] = value;
  }
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    work.factors[source][factor_place(work, place, 0, 1, 0)] =
        a.initial[kSourceState[source]][place.row];
  }
}

// The cell's equations, and all that a step writes; `gate` has the sums of the products.
RNNC_INLINE void forward_item(const ForwardArguments& a, const Work& work, const Place& place,
                              int64 t, const ForwardInputs& inputs,
                              real (&gate)[at_least_one(kGates)], real (&state)[kStates]) {
#pragma unroll
  for (int g = 0; g < kGates; ++g) gate[g] += inputs.gate[g];
#pragma unroll
  for (int n = 0; n < kDiagonalPairs; ++n) {
    const int i = kDiagonalOrder[n];
    gate[kDiagonalGate[i]] += inputs.diagonal[i] * state[kDiagonalSource[i]];
  }
  real kept[at_least_one(kSaved)];
  real next[kStates];
  with_sigmoid<false>([&](auto& sigmoid) {
    step_forward(gate, state, inputs.param, next, kept, sigmoid);
  });
  assign(state, next);

  const int64 here = t * work.batch * work.heads * work.dim + place.row;
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    work.factors[source][factor_place(work, place, t + 1, 1, 0)] =
        to_element<Element>(state[kSourceState[source]]);
  }
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    work.states[s][place.row] = state[s];
    const Element value = to_element<Element>(state[s]);
    if (a.states[s]) a.states[s][here] = value;
    if (t == a.steps - 1) a.last[s][place.row] = value;
  }
  if (kSaved && a.kept) {
    Row<Element, kSaved> row;
    row.set(kept);
    row.store(a.kept + here * kSaved);
  }
}

}  // namespace rnnc
