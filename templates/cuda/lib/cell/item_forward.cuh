// What every forward kernel does for an item, which is one unit of one batch row.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/ptx/sigmoid.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// The biases of a unit's gates; zero for a gate without one.
template <typename Arguments>
RNNC_INLINE void load_bias(Gates& bias, const Arguments& a, int64 plane, int64 unit) {
  repeat<Cell::kGates>([&](int g) { bias[g] = 0; });
  repeat<Cell::kBiasGates>([&](int i) {
    if (a.bias) bias[kBias[i]] = to_real(a.bias[i * plane + unit]);
  });
}
// The gates from bias and input.
RNNC_INLINE void start_gates(Gates& gate, const Gates& bias,
                             const Vec<Element, Cell::kInputGates>& x) {
  repeat<Cell::kGates>([&](int g) {
    gate[g] = bias[g];
    if (g < Cell::kInputGates) gate[g] += x[g];
  });
}
// Adds the states to the gates that read them through diagonal weights.
RNNC_INLINE void add_diagonal(Gates& gate, const Diagonal& diagonal, const States& state) {
  repeat<Cell::kDiagonalPairs>([&](int n) {
    const int i = kDiagonalOrder[n];
    gate[kDiagonalGate[i]] += diagonal[i] * state[kDiagonalSource[i]];
  });
}

RNNC_INLINE Vec<Element, 1> pack_state(real state) {
  Vec<Element, 1> vec;
  vec.set({state});
  return vec;
}
RNNC_INLINE Vec<Element, Cell::kSaved> pack_saved(const Saved& saved) {
  Vec<Element, Cell::kSaved> vec;
  vec.set(saved);
  return vec;
}

}  // namespace rnnc
