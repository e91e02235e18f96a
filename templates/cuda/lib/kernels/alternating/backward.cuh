// A backward step of an alternating plan but for its product: what it takes and what it leaves.
#pragma once

namespace rnnc {

// What a backward step takes from the call: d_state is the gradient that the caller gave.
struct BackwardInputs {
  Row<Element, kSaved> kept;
  real before[kStates], after[kStates], d_state[kStates];
  real param[at_least_one(kParams)], diagonal[at_least_one(kDiagonalPairs)];

  RNNC_MEMBER void load(const BackwardArguments& a, const Work& work, const Place& place, int64 t) {
    const int64 unit = place.unit, plane = work.heads * work.dim, size = work.batch * plane;
    const int64 here = t * size + place.row;
    kept.load(a.kept + here * kSaved);
    if (t > 0 && kSaved) prefetch(a.kept + (here - size) * kSaved);
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      before[s] = after[s] = d_state[s] = 0;
      if (kReads[s]) {
        after[s] = to_real(a.states[s][here]);
        before[s] = to_real(t > 0 ? a.states[s][here - size] : a.initial[s][place.row]);
        if (t > 1) prefetch(a.states[s] + here - 2 * size);
      }
      if (a.d_states[s]) {
        const Element* d =
            a.d_states[s] + t * a.d_states_time[s] + place.b * a.d_states_row[s] + unit;
        d_state[s] = to_real(*d);
        if (t > 0) prefetch(d - a.d_states_time[s]);
      }
    }
#pragma unroll
    for (int i = 0; i < kParams; ++i) param[i] = to_real(a.params[i][unit]);
#pragma unroll
    for (int i = 0; i < kDiagonalPairs; ++i) diagonal[i] = to_real(a.R_diag[i * plane + unit]);
  }
};

// What a backward step takes from the one before it in this order, but for products.
struct BackwardCarried {
  real d_state[kStates], sums[at_least_one(kSums)];

  RNNC_MEMBER void load_gradients(const Work& work, const Place& place) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) d_state[s] = load_fresh(work.states[s] + place.row);
  }
  // Needed last.
  RNNC_MEMBER void load_sums(const Work& work, const Place& place) {
    const int64 size = static_cast<int64>(work.batch) * work.heads * work.dim;
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = load_fresh(work.sums + i * size + place.row);
  }
};

RNNC_INLINE void backward_begin(const BackwardArguments& a, const Work& work) {
  const Place place(work);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *static_cast<BackwardArguments*>(work.arguments) = a;
    *work.first_step = 0;
  }
  if (!place.given) return;
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    work.states[s][place.row] = a.d_last[s] ? to_real(a.d_last[s][place.row]) : real(0);
  }
  // Nothing comes back from beyond the last step.
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      const int64 at = factor_place(work, place, 0, kSourcePairs[source], i);
      if constexpr (kOwnProduct) {
        work.factors[source][at] = to_element<Element>(real(0));
      } else {
        work.products[source][at] = 0;
      }
    }
  }
  const int64 size = static_cast<int64>(work.batch) * work.heads * work.dim;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    work.sums[i * size + place.row] = 0;
    work.totals[i * size + place.row] = 0;
  }
}

// The cell's equations backwards, and all that step t writes; carried.d_state has the products.
RNNC_INLINE void backward_item(const BackwardArguments& a, const Work& work, const Place& place,
                               int64 t, const BackwardInputs& inputs, BackwardCarried& carried) {
  real (&d_state)[kStates] = carried.d_state;
  real d_gate[at_least_one(kGates)], d_param[at_least_one(kParams)], kept[at_least_one(kSaved)];
#pragma unroll
  for (int i = 0; i < kSaved; ++i) kept[i] = inputs.kept[i];
#pragma unroll
  for (int s = 0; s < kStates; ++s) d_state[s] += inputs.d_state[s];
  step_backward(kept, inputs.before, inputs.after, inputs.param, d_state, d_gate, d_param);

#pragma unroll
  for (int source = 0; source < kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      work.factors[source][factor_place(work, place, a.steps - t, kSourcePairs[source], i)] =
          to_element<Element>(d_gate[kPairGate[kSourceFirstPair[source] + i]]);
    }
  }
#pragma unroll
  for (int n = 0; n < kDiagonalPairs; ++n) {
    const int i = kDiagonalOrder[n];
    d_state[kDiagonalSource[i]] += inputs.diagonal[i] * d_gate[kDiagonalGate[i]];
  }
#pragma unroll
  for (int s = 0; s < kStates; ++s) work.states[s][place.row] = d_state[s];
  const int64 size = static_cast<int64>(work.batch) * work.heads * work.dim;
  const int64 here = t * size + place.row;
  real wx[at_least_one(kInputGates)], rest[at_least_one(kGates - kInputGates)];
#pragma unroll
  for (int g = 0; g < kGates; ++g) {
    (g < kInputGates ? wx[g] : rest[g - kInputGates]) = d_gate[g];
  }
  Row<Element, kInputGates> wx_row;
  wx_row.set(wx);
  wx_row.store(a.d_wx + here * kInputGates);
  Row<Element, kGates - kInputGates> rest_row;
  rest_row.set(rest);
  rest_row.store(a.d_rest + here * (kGates - kInputGates));
#pragma unroll
  for (int i = 0; i < kBiasGates; ++i) carried.sums[i] += d_gate[kBias[i]];
#pragma unroll
  for (int i = 0; i < kParams; ++i) carried.sums[kBiasGates + i] += d_param[i];
#pragma unroll
  for (int i = 0; i < kDiagonalPairs; ++i) {
    carried.sums[kBiasGates + kParams + i] +=
        d_gate[kDiagonalGate[i]] * inputs.before[kDiagonalSource[i]];
  }
  const bool ends = t % kPartSteps == 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    if (ends) {
      SumOverTime* total = work.totals + i * size + place.row;
      *total = load_fresh(total) + SumOverTime(carried.sums[i]);
    }
    work.sums[i * size + place.row] = ends ? real(0) : carried.sums[i];
  }
}

// The gradients of the initial states, and the sums over time summed over the batch, in its order.
RNNC_INLINE void backward_last(const BackwardArguments& a, const Work& work, const Place& place,
                               const real (&d_state)[kStates]) {
#pragma unroll
  for (int s = 0; s < kStates; ++s) a.d_initial[s][place.row] = to_element<Element>(d_state[s]);
  if (place.b != 0) return;
  const int64 plane = work.heads * work.dim, size = work.batch * plane;
  for (int i = 0; i < kSums; ++i) {
    SumOverTime total = 0;
    for (int64 b = 0; b < work.batch; ++b) total += work.totals[i * size + b * plane + place.row];
    a.sums[i * plane + place.row] = total;
  }
}

}  // namespace rnnc
