// The backward of a single step ahead of its products: the pointwise map.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/kernels/step/arguments.cuh"

namespace rnnc::step {

// The gradients of an item: of its gates, of its states without what passes through R, and its part
// of the sums over the batch.
struct ItemGradients {
  Gates d_gate;
  States d_state;
  GradientSums sums = {};

  RNNC_MEMBER ItemGradients(const BackwardStepArguments& a, int64 plane, int64 unit, int64 row) {
    Vec<Element, Cell::kSaved> packed;
    States before, after;
    Params param, d_param;
    Diagonal diagonal;
    ReadValues saved;
    packed.load(a.saved + row * Cell::kSaved);
    unpack_saved(saved, packed);
    load_unit_weights(param, diagonal, a, plane, unit);
    repeat<Cell::kStates>([&](int s) {
      before[s] = kReads[s] ? to_real(a.before[s][row]) : real(0);
      after[s] = kReads[s] ? to_real(a.after[s][row]) : real(0);
      d_state[s] = a.d_after[s] ? to_real(a.d_after[s][row]) : real(0);
    });
    if (a.d_output) d_state[0] += to_real(a.d_output[row]);
    apply_pointwise_backward(saved, before, after, param, d_state, d_gate, d_param);
    add_diagonal_gradient(d_state, diagonal, d_gate);
    add_to_sums(sums, d_gate, d_param, before);
  }

  RNNC_MEMBER void store(const BackwardStepArguments& a, int64 plane, int64 unit, int64 b) const {
    if (a.d_inputs) {
      Element* to = a.d_inputs + b * Cell::kInputGates * plane + unit;
      repeat<Cell::kInputGates>([&](int g) { to[g * plane] = to_element<Element>(d_gate[g]); });
    }
    if (a.d_pairs) {
      Element* to = a.d_pairs + b * Cell::kDensePairs * plane + unit;
      repeat<Cell::kDensePairs>([&](int pair) {
        to[kPairMatrix[pair] * plane] = to_element<Element>(d_gate[kPairGate[pair]]);
      });
    }
    repeat<Cell::kStates>([&](int s) {
      const int64 row = b * plane + unit;
      if (a.d_before[s]) {
        a.d_before[s][row] = d_state[s];
      } else if (a.d_states[s]) {
        a.d_states[s][row] = to_element<Element>(d_state[s]);
      }
    });
    if (!a.sums) return;
    real* to = a.sums + b * Cell::kSums * plane + unit;
    repeat<Cell::kSums>([&](int i) { to[i * plane] = sums[i]; });
  }
};

RNNC_INLINE void backward_step(const BackwardStepArguments& a) {
  const StepItem item(a);
  if (!item.valid) return;
  ItemGradients(a, item.plane, item.unit, item.row()).store(a, item.plane, item.unit, item.b);
}

}  // namespace rnnc::step
