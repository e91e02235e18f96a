// What every backward kernel does for an item, which is one unit of one batch row.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/switches.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

constexpr int kGatesNoInput = Cell::kGates - Cell::kInputGates;

// How many of the first states the backward reads before each step.
RNNC_CONSTEXPR int states_read(int states) {
  int count = 0;
  for (int s = 0; s < states; ++s) count += kReads[s];
  return count;
}

// Gradients of a unit's biases, params and diagonal weights, in this order.
using GradientSums = real[at_least_one(Cell::kSums)];

// What the backward pointwise map reads of a step: saved values, then the inputs of the cell.
#ifdef RNNC_UNWEIGHTED
using ReadValues = real[Cell::kSaved + Cell::kUnweighted];
#else
using ReadValues = Saved;
#endif

RNNC_INLINE void unpack_saved(ReadValues& saved, const Vec<Element, Cell::kSaved>& vec) {
  repeat<Cell::kSaved>([&](int i) { saved[i] = vec[i]; });
}

// Adds the gradients of gates to the states that they read through diagonal weights.
RNNC_INLINE void add_diagonal_gradient(States& d_state, const Diagonal& diagonal,
                                       const Gates& d_gate) {
  repeat<Cell::kDiagonalPairs>([&](int n) {
    const int i = kDiagonalOrder[n];
    d_state[kDiagonalSource[i]] += diagonal[i] * d_gate[kDiagonalGate[i]];
  });
}

// Adds a step to the sums over time; `before` are the states before it.
RNNC_INLINE void add_to_sums(GradientSums& sums, const Gates& d_gate, const Params& d_param,
                             const States& before) {
  repeat<Cell::kBiasGates>([&](int i) { sums[i] += d_gate[kBias[i]]; });
  repeat<Cell::kParams>([&](int i) { sums[Cell::kBiasGates + i] += d_param[i]; });
  repeat<Cell::kDiagonalPairs>([&](int i) {
    sums[Cell::kBiasGates + Cell::kParams + i] +=
        d_gate[kDiagonalGate[i]] * before[kDiagonalSource[i]];
  });
}

// The gradients of an item's gates as they are stored: those with an input, and the others.
struct PackedGates {
  Vec<Element, Cell::kInputGates> d_wx;
  Vec<Element, kGatesNoInput> d_no_input;

  PackedGates() = default;
  RNNC_MEMBER explicit PackedGates(const Gates& d_gate) {
    real inputs[at_least_one(Cell::kInputGates)], others[at_least_one(kGatesNoInput)];
    repeat<Cell::kGates>([&](int g) {
      (g < Cell::kInputGates ? inputs[g] : others[g - Cell::kInputGates]) = d_gate[g];
    });
    d_wx.set(inputs);
    d_no_input.set(others);
  }
  // Makes them zeros in padding.
  RNNC_MEMBER void clear_unless(bool is_own_step) {
    if constexpr (kMasked) {
      d_wx.clear_unless(is_own_step);
      d_no_input.clear_unless(is_own_step);
    }
  }
  RNNC_MEMBER void store(Element* to_wx, Element* to_no_input) const {
    d_wx.store(to_wx);
    d_no_input.store(to_no_input);
  }
  // `offset` is that of the item in [T, B, N, D], in elements.
  RNNC_MEMBER void store(const BackwardArguments& a, int64 offset) const {
    store(a.d_wx + offset * Cell::kInputGates, a.d_gates_no_input + offset * kGatesNoInput);
  }
};

}  // namespace rnnc
