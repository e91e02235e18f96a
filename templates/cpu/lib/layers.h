// All steps of all layers, one layer after the other, where no backward follows.
#pragma once

#include "forward.h"
#include "layer_weights.h"

namespace rnnc {

// Mirrored in runtime/cpu/sequence.py.
struct LayersArguments {
  Sizes sizes;
  int64_t layers, features;  // of x
  const real* x;             // [T][B][features], by the strides below
  int64_t x_strides[2];      // of time and batch, in elements; features are adjacent
  const real* initial[kStates];  // [layers][B][N][D] each; null for a state of equal values
  real* last[kStates];           // [layers][B][N][D] each
  real* output;                  // [T][B][N][D], of the last layer
  double values[kStates];        // of the states that are null
  const real* weights[];         // [layers][kLayerWeights], null for each that there is not
};

class Layers {
 public:
  explicit Layers(const LayersArguments& a)
      : a_(a), hidden_(a.sizes.heads * a.sizes.dim), plane_(a.sizes.batch * hidden_),
        equal_(a.initial, a.values, plane_), params_(kParams * hidden_),
        b_(a.sizes.heads > 1 ? kBiasGates * hidden_ : 0),
        R_diag_(a.sizes.heads > 1 ? kDiagonalPairs * hidden_ : 0),
        between_(smaller(a.layers - 1, 2) * a.sizes.steps * plane_, false),
        read_(states_read() * a.sizes.steps * plane_, false) {}

  void run() {
    const real* x = a_.x;
    int64_t strides[] = {a_.x_strides[0], a_.x_strides[1]}, features = a_.features;
    for (int64_t layer = 0; layer < a_.layers; ++layer) {
      const bool top = layer == a_.layers - 1;
      real* const y = top ? a_.output : between_ + layer % 2 * a_.sizes.steps * plane_;
      run_layer(layer, x, strides, features, y);
      x = y, strides[0] = plane_, strides[1] = features = hidden_;
    }
  }

 private:
  // Whether products need a state of all units, so that a step may not overwrite it. The first
  // state is the output.
  static bool is_read(int state) {
    for (int p = 0; p < kDensePairs; ++p) {
      if (kDenseSource[p] == state && state > 0) return true;
    }
    return false;
  }

  static int64_t states_read() {
    int64_t count = 0;
    for (int s = 0; s < kStates; ++s) count += is_read(s);
    return count;
  }

  void run_layer(int64_t layer, const real* x, const int64_t* strides, int64_t features, real* y) {
    const real* const* weights = a_.weights + layer * kLayerWeights;
    const int64_t dim = a_.sizes.dim;
    ForwardArguments of = {};
    of.sizes = a_.sizes;
    of.x = x;
    of.x_strides[0] = strides[0], of.x_strides[1] = strides[1];
    of.features = features;
    of.W = weights[0];
    of.W_strides[0] = dim * features, of.W_strides[1] = kInputGates * dim * features;
    of.R = weights[1];
    of.R_strides[0] = dim * dim, of.R_strides[1] = kDensePairs * dim * dim;
    of.b = by_gate(weights[2], kBiasGates, a_.sizes, b_);
    of.R_diag = by_gate(weights[3], kDiagonalPairs, a_.sizes, R_diag_);
    of.params = gather_params(weights, params_, hidden_);
    real* read = read_;
    for (int s = 0; s < kStates; ++s) {
      of.initial[s] = equal_.or_given(s, a_.initial[s], layer);
      of.states[s] = of.last[s] = a_.last[s] + layer * plane_;
      if (s > 0 && !is_read(s)) continue;
      of.states[s] = s == 0 ? y : read;
      of.step_strides[s] = plane_;
      if (s > 0) read += a_.sizes.steps * plane_;
    }
    forward(of);
  }

  const LayersArguments& a_;
  const int64_t hidden_, plane_;
  const EqualStates equal_;
  Scratch params_, b_, R_diag_;
  Scratch between_, read_;  // outputs of two layers, and states that matrices read besides
};

}  // namespace rnnc
