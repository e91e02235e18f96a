// The backward of a single step ahead of its products: the pointwise map.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/kernels/step/arguments.cuh"

namespace rnnc::step {

RNNC_INLINE void backward_step(const BackwardStepArguments& a) {
  const StepItem item(a);
  if (!item.valid) return;
  const int64 row = item.row(), plane = item.plane;
  Vec<Element, Cell::kSaved> packed;
  States before, after, d_state;
  Params param, d_param;
  Diagonal diagonal;
  Gates d_gate;
  Saved saved;
  packed.load(a.saved + row * Cell::kSaved);
  unpack_saved(saved, packed);
  load_unit_weights(param, diagonal, a, plane, item.unit);
  repeat<Cell::kStates>([&](int s) {
    before[s] = kReads[s] ? to_real(a.before[s][row]) : real(0);
    after[s] = kReads[s] ? to_real(a.after[s][row]) : real(0);
    d_state[s] = a.d_after[s] ? to_real(a.d_after[s][row]) : real(0);
  });
  if (a.d_output) d_state[0] += to_real(a.d_output[row]);
  apply_pointwise_backward(saved, before, after, param, d_state, d_gate, d_param);
  add_diagonal_gradient(d_state, diagonal, d_gate);

  Element* d_inputs = a.d_inputs + item.b * Cell::kInputGates * plane + item.unit;
  repeat<Cell::kInputGates>(
      [&](int g) { d_inputs[g * plane] = to_element<Element>(d_gate[g]); });
  if (a.d_pairs) {
    Element* d_pairs = a.d_pairs + item.b * Cell::kDensePairs * plane + item.unit;
    repeat<Cell::kDensePairs>([&](int pair) {
      d_pairs[kPairMatrix[pair] * plane] = to_element<Element>(d_gate[kPairGate[pair]]);
    });
  }
  repeat<Cell::kStates>([&](int s) {
    if (a.d_before[s]) a.d_before[s][row] = d_state[s];
  });
  if (!a.sums) return;
  GradientSums sums = {};
  add_to_sums(sums, d_gate, d_param, before);
  real* to = a.sums + item.b * Cell::kSums * plane + item.unit;
  repeat<Cell::kSums>([&](int i) { to[i * plane] = sums[i]; });
}

}  // namespace rnnc::step
