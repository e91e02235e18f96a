// The forward of a single step after the products of the matrix library: the pointwise map.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/kernels/step/arguments.cuh"

namespace rnnc::step {

// The cell's equations of an item and everything that its step writes; `gate` holds the products.
RNNC_INLINE void finish_item(const ForwardStepArguments& a, int64 plane, int64 unit, int64 row,
                             Gates& gate) {
  Params param;
  Diagonal diagonal;
  Gates bias;
  States state, next;
  Saved saved;
  repeat<Cell::kStates>([&](int s) { state[s] = to_real(a.before[s][row]); });
  load_bias(bias, a, plane, unit);
  load_unit_weights(param, diagonal, a, plane, unit);
  repeat<Cell::kGates>([&](int g) { gate[g] += bias[g]; });
  add_diagonal(gate, diagonal, state);
  with_sigmoid<false>(
      [&](auto& sigmoid) { apply_pointwise_forward(gate, state, param, next, saved, sigmoid); });
  repeat<Cell::kStates>([&](int s) { a.after[s][row] = to_element<Element>(next[s]); });
  if (a.output) a.output[row] = to_element<Element>(next[0]);
  if (Cell::kSaved && a.saved) pack_saved(saved).store(a.saved + row * Cell::kSaved);
}

RNNC_INLINE void pointwise_step(const ForwardStepArguments& a) {
  const StepItem item(a);
  if (!item.valid) return;
  Gates gate = {};
  const real* x = a.x_products + item.b * Cell::kInputGates * item.plane + item.unit;
  const real* h = a.h_products + item.b * Cell::kDensePairs * item.plane + item.unit;
  repeat<Cell::kInputGates>([&](int g) { gate[g] += x[g * item.plane]; });
  repeat<Cell::kDensePairs>([&](int pair) {
    gate[kPairGate[pair]] += h[kPairMatrix[pair] * item.plane];
  });
  finish_item(a, item.plane, item.unit, item.row(), gate);
}

}  // namespace rnnc::step
