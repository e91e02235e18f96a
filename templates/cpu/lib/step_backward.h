// The backward of a single step of all layers, from the last layer to the first.
#pragma once

#include "backward.h"
#include "dots.h"
#include "step.h"

namespace rnnc {

struct StepBackwardArguments {
  Sizes sizes;  // of one step
  int64_t layers, features;      // of x
  const real* x;                 // [B][features]
  const real* initial[kStates];  // [layers][B][N][D] each; null for a state of equal values
  const real* last[kStates];     // [layers][B][N][D] each
  const real* kept;              // [layers][B][N][kSaved][D]
  const real* d_output;          // [B][N][D], or null for zero
  const real* d_last[kStates];   // [layers][B][N][D] each, or null for zero
  real* d_x;                     // [B][features], or null where nobody reads it
  real* d_initial[kStates];      // [layers][B][N][D] each, or null likewise
  // Of a single layer whose matrices the caller multiplies: [B][N][kGradients][D]; or null.
  real* d_gates;
  double values[kStates];  // of the states that are null
  // [layers][kLayerWeights], null for each that there is not.
  const real* weights[];
  // Then as many gradients, null where nobody reads them.
};

// The products of the gradients of one layer's gates.
struct StepGradients {
  const Sizes& sizes;
  int64_t features;
  const real *x, *d_gates;  // [B][features], [B][N][kGradients][D]
  const real *W, *R;
  const real* const* before;  // [B][N][D] each
  bool zero_before;           // where matrices read the states
  real *d_W, *d_R, *d_x;      // or null
  real* const* d_before;      // [B][N][D] each, added to; or null

  void run() const {
    const int64_t hidden = sizes.heads * sizes.dim, heads = sizes.heads;
    const int64_t of_W = d_W != nullptr ? kInputGates * heads : 0;
    const int64_t of_R = d_R != nullptr ? kDensePairs * heads : 0;
    const int64_t of_x = d_x != nullptr ? (features + kColumnPart - 1) / kColumnPart : 0;
    const int64_t parts = (sizes.dim + kColumnPart - 1) / kColumnPart;
    const int64_t of_before = d_before != nullptr && R != nullptr ? heads * parts : 0;
    const int64_t pieces = (of_W + of_R) * parts + of_x + of_before;
    const int64_t total = sizes.batch * hidden * (2 * kInputGates * features + kDensePairs * sizes.dim);
#pragma omp parallel for schedule(static) num_threads(sizes.threads) \
    if (sizes.threads > 1 && total > kWorthWaking)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      int64_t i = piece;
      if (i < of_W * parts) {
        sum_W(i / parts, i % parts * kColumnPart);
      } else if ((i -= of_W * parts) < of_R * parts) {
        sum_R(i / parts, i % parts * kColumnPart);
      } else if ((i -= of_R * parts) < of_x) {
        add_to_x(i * kColumnPart);
      } else {
        i -= of_x;
        add_to_before(i / parts, i % parts * kColumnPart);
      }
    }
  }

 private:
  int64_t row_stride() const { return sizes.heads * kGradients * sizes.dim; }  // of d_gates

  const real* gate(int64_t head, int64_t gate) const {
    return d_gates + (head * kGradients + gate) * sizes.dim;
  }

  // Some units of a gate and head, matrix = [head][gate].
  void sum_W(int64_t matrix, int64_t unit) const {
    sum_over_rows(gate(matrix / kAnyInputs, matrix % kAnyInputs) + unit, row_stride(), x, features,
                  sizes.batch, smaller(kColumnPart, sizes.dim - unit), features,
                  d_W + (matrix * sizes.dim + unit) * features);
  }

  void sum_R(int64_t matrix, int64_t unit) const {
    const int64_t dim = sizes.dim, units = smaller(kColumnPart, dim - unit);
    const int64_t head = matrix / kAnyPairs, pair = matrix % kAnyPairs;
    real* const to = d_R + (matrix * dim + unit) * dim;
    if (zero_before) {
      std::memset(to, 0, (size_t)(units * dim) * sizeof(real));
      return;
    }
    sum_over_rows(gate(head, kDenseGate[pair]) + unit, row_stride(),
                  before[kDenseSource[pair]] + head * dim, sizes.heads * dim, sizes.batch, units,
                  dim, to);
  }

  void add_to_x(int64_t column) const {
    const int64_t dim = sizes.dim, columns = smaller(kColumnPart, features - column);
    for (int64_t row = 0; row < sizes.batch; ++row) {
      std::memset(d_x + row * features + column, 0, (size_t)columns * sizeof(real));
    }
    for (int64_t i = 0; i < kInputGates * sizes.heads; ++i) {
      const int64_t head = i % sizes.heads, of = i / sizes.heads;
      add_rows(gate(head, of), row_stride(),
               W + (head * kInputGates + of) * dim * features + column, features, sizes.batch, dim,
               columns, d_x + column, features);
    }
  }

  void add_to_before(int64_t head, int64_t column) const {
    const int64_t dim = sizes.dim, columns = smaller(kColumnPart, dim - column);
    for (int i = 0; i < kDensePairs; ++i) {
      const int p = kDenseOrder[i];
      add_rows(gate(head, kDenseGate[p]), row_stride(),
               R + (head * kDensePairs + p) * dim * dim + column, dim, sizes.batch, dim, columns,
               d_before[kDenseSource[p]] + head * dim + column, sizes.heads * dim);
    }
  }
};

class StepBackward {
 public:
  explicit StepBackward(const StepBackwardArguments& a)
      : a_(a), hidden_(a.sizes.heads * a.sizes.dim), plane_(a.sizes.batch * hidden_),
        equal_(a.initial, a.values, plane_), params_(kParams * hidden_),
        tiles_(tiles(a.sizes)), d_gates_(a.d_gates == nullptr ? kGradients * plane_ : 0),
        d_before_(kStates * plane_), d_bias_(tiles_ * kGradients * hidden_),
        d_params_(tiles_ * kParams * hidden_), d_diagonal_(tiles_ * kDiagonalPairs * hidden_),
        d_below_(a.layers > 1 ? plane_ : 0),
        R_diag_(a.sizes.heads > 1 ? kDiagonalPairs * hidden_ : 0) {}

  void run() {
    const real* d_output = a_.d_output;
    for (int64_t layer = a_.layers - 1; layer >= 0; --layer) d_output = run_layer(layer, d_output);
  }

 private:
  // Gives the gradient of the output of the layer below.
  const real* run_layer(int64_t layer, const real* d_output) {
    const real* const* weights = a_.weights + layer * kLayerWeights;
    real* const* d_weights = (real* const*)weights + a_.layers * kLayerWeights;
    const real* before[kStates];
    real* d_before[kStates];
    BackwardArguments of = {};
    of.sizes = a_.sizes;
    of.R_diag = by_gate(weights[3], kDiagonalPairs, a_.sizes, R_diag_);
    of.params = gather_params(weights, params_, hidden_);
    of.kept = a_.kept + layer * plane_ * kSaved;
    of.d_states[0] = d_output;
    of.d_gates = a_.d_gates != nullptr ? a_.d_gates : (real*)d_gates_;
    of.d_bias = d_bias_;
    of.d_params = d_params_;
    of.d_diagonal = d_diagonal_;
    for (int s = 0; s < kStates; ++s) {
      before[s] = of.initial[s] = equal_.or_given(s, a_.initial[s], layer);
      of.states[s] = a_.last[s] + layer * plane_;
      of.d_last[s] = a_.d_last[s] != nullptr ? a_.d_last[s] + layer * plane_ : nullptr;
      real* const given = a_.d_initial[s];
      d_before[s] = given != nullptr ? given + layer * plane_ : d_before_ + s * plane_;
      of.d_initial[s] = d_before[s];
    }
    backward(of);
    store(d_weights);
    if (a_.d_gates != nullptr) return nullptr;
    real* const d_x = weights[0] == nullptr ? nullptr : layer > 0 ? (real*)d_below_ : a_.d_x;
    const StepGradients products = {
        a_.sizes,
        layer > 0 ? hidden_ : a_.features,
        layer > 0 ? a_.last[0] + (layer - 1) * plane_ : a_.x,
        d_gates_,
        weights[0],
        weights[1],
        before,
        equal_.zero_for_matrices(),
        d_weights[0],
        d_weights[1],
        d_x,
        a_.d_initial[0] != nullptr ? d_before : nullptr,
    };
    products.run();
    return d_x;
  }

  // Copy the sums over batch rows to where they are wanted.
  void store(real* const* d_weights) {
    add_tiles(d_bias_, kGradients * hidden_);
    add_tiles(d_params_, kParams * hidden_);
    add_tiles(d_diagonal_, kDiagonalPairs * hidden_);
    for (int i = 0; i < kBiasGates && d_weights[2] != nullptr; ++i) {
      copy_heads(d_bias_ + kBias[i] * hidden_, d_weights[2], i, kBiasGates);
    }
    for (int i = 0; i < kDiagonalPairs && d_weights[3] != nullptr; ++i) {
      copy_heads(d_diagonal_ + i * hidden_, d_weights[3], i, kDiagonalPairs);
    }
    for (int i = 0; i < kParams; ++i) {
      if (d_weights[4 + i] != nullptr) copy_row(d_params_ + i * hidden_, d_weights[4 + i], hidden_);
    }
  }

  // The units of one gate to where they lie head by head.
  void copy_heads(const real* from, real* to, int64_t gate, int64_t gates) const {
    const int64_t dim = a_.sizes.dim;
    for (int64_t head = 0; head < a_.sizes.heads; ++head) {
      copy_row(from + head * dim, to + (head * gates + gate) * dim, dim);
    }
  }

  // The sum over the tiles of the batch, in their order.
  void add_tiles(real* sums, int64_t size) {
    for (int64_t tile = 1; tile < tiles_; ++tile) add_row(sums + tile * size, sums, size);
  }

  const StepBackwardArguments& a_;
  const int64_t hidden_, plane_;
  const EqualStates equal_;
  Scratch params_;
  const int64_t tiles_;
  Scratch d_gates_, d_before_, d_bias_, d_params_, d_diagonal_, d_below_, R_diag_;
};

static void step_backward(const StepBackwardArguments& a) { StepBackward(a).run(); }

}  // namespace rnnc
