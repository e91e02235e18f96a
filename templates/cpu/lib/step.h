// A single step of all layers, one after the other.
#pragma once

#include "dots.h"
#include "forward.h"
#include "layer_weights.h"

namespace rnnc {

struct StepArguments {
  Sizes sizes;  // of one step and one task per batch tile
  int64_t layers, features;  // of x
  const real* x;             // [B][features]
  // Of a single layer whose products the caller has made; else null.
  const real* wx;              // [B][N][input gates][D]
  const real* product;         // as in ForwardArguments
  int64_t product_strides[3];  // likewise
  const real* initial[kStates];  // [layers][B][N][D] each; null for a state of equal values
  real* last[kStates];           // [layers][B][N][D] each
  real* output;                  // [B][N][D], of the last layer
  real* kept;                    // [layers][B][N][kSaved][D], or null where no backward follows
  double values[kStates];        // of the states that are null
  const real* weights[];         // [layers][kLayerWeights], null for each that there is not
};

// Columns of one part of a product: parts are shared among threads.
constexpr int64_t kColumnPart = 64;
// Divisors, for cells without such gates too.
constexpr int64_t kAnyInputs = kInputGates > 0 ? kInputGates : 1;
constexpr int64_t kAnyPairs = kDensePairs > 0 ? kDensePairs : 1;
// Multiplications above which it is worth to wake a thread.
constexpr int64_t kWorthWaking = 1 << 19;

// The products of one layer and step: of W with the input, of R with the states.
class StepProducts {
 public:
  StepProducts(const Sizes& sizes, const real* x, int64_t features, const real* W, const real* R,
               const real* const* before)
      : size_(sizes), x_(x), W_(W), R_(R), features_(features), before_(before),
        hidden_(sizes.heads * sizes.dim), input_columns_(W != nullptr ? kInputGates * hidden_ : 0),
        input_parts_((input_columns_ + kColumnPart - 1) / kColumnPart),
        head_parts_((sizes.dim + kColumnPart - 1) / kColumnPart),
        wx_(sizes.batch * input_columns_),
        product_(R != nullptr ? sizes.batch * kDensePairs * hidden_ : 0) {}

  void run() {
    const int64_t pieces = input_parts_ + (R_ != nullptr ? kDensePairs * size_.heads * head_parts_ : 0);
    const int64_t recurrent = R_ != nullptr ? kDensePairs * hidden_ * size_.dim : 0;
    const int64_t total = size_.batch * (input_columns_ * features_ + recurrent);
    if (size_.threads == 1 || total <= kWorthWaking) {  // even a region of one thread takes time
      for (int64_t piece = 0; piece < pieces; ++piece) multiply(piece);
      return;
    }
#pragma omp parallel for schedule(static) num_threads(size_.threads)
    for (int64_t piece = 0; piece < pieces; ++piece) multiply(piece);
  }

  const real* wx() { return wx_; }
  const real* product() { return R_ != nullptr ? (const real*)product_ : nullptr; }

 private:
  void multiply(int64_t piece) {
    if (piece < input_parts_) {
      multiply_input(piece * kColumnPart);
    } else {
      multiply_states(piece - input_parts_);
    }
  }

  void multiply_input(int64_t column) {
    add_dots(x_, features_, W_ + column * features_, size_.batch, features_,
             smaller(kColumnPart, input_columns_ - column), wx_ + column, input_columns_);
  }

  void multiply_states(int64_t piece) {
    const int64_t dim = size_.dim, matrix = piece / head_parts_;  // [head][pair]
    const int64_t unit = piece % head_parts_ * kColumnPart, head = matrix / kAnyPairs;
    add_dots(before_[kDenseSource[matrix % kAnyPairs]] + head * dim, hidden_,
             R_ + (matrix * dim + unit) * dim, size_.batch, dim, smaller(kColumnPart, dim - unit),
             product_ + matrix * dim + unit, kDensePairs * hidden_);
  }

  const Sizes& size_;
  const real *const x_, *const W_, *const R_;
  const int64_t features_;
  const real* const* const before_;
  const int64_t hidden_, input_columns_, input_parts_, head_parts_;
  Scratch wx_, product_;  // [B][N][input gates][D] and [B][N][dense pairs][D]
};

class StepOfLayers {
 public:
  explicit StepOfLayers(const StepArguments& a)
      : a_(a), hidden_(a.sizes.heads * a.sizes.dim), plane_(a.sizes.batch * hidden_),
        equal_(a.initial, a.values, plane_), params_(kParams * hidden_),
        b_(a.sizes.heads > 1 ? kBiasGates * hidden_ : 0),
        R_diag_(a.sizes.heads > 1 ? kDiagonalPairs * hidden_ : 0) {}

  void run() {
    for (int64_t layer = 0; layer < a_.layers; ++layer) run_layer(layer);
  }

 private:
  void run_layer(int64_t layer) {
    const real* const* weights = a_.weights + layer * kLayerWeights;
    ForwardArguments of = {};
    of.sizes = a_.sizes;
    for (int s = 0; s < kStates; ++s) {
      of.initial[s] = equal_.or_given(s, a_.initial[s], layer);
      of.states[s] = a_.last[s] + layer * plane_;
    }
    if (layer == a_.layers - 1) of.last[0] = a_.output;
    of.kept = a_.kept != nullptr ? a_.kept + layer * plane_ * kSaved : nullptr;
    of.b = by_gate(weights[2], kBiasGates, a_.sizes, b_);
    of.R_diag = by_gate(weights[3], kDiagonalPairs, a_.sizes, R_diag_);
    of.params = gather_params(weights, params_, hidden_);
    const real* const x = layer > 0 ? a_.last[0] + (layer - 1) * plane_ : a_.x;
    const bool multiplied = a_.product != nullptr || equal_.zero_for_matrices();
    StepProducts products(a_.sizes, x, layer > 0 ? hidden_ : a_.features,
                          a_.wx == nullptr ? weights[0] : nullptr,
                          multiplied ? nullptr : weights[1], of.initial);
    products.run();
    const int64_t dim = a_.sizes.dim;
    const int64_t strides[] = {0, kInputGates * hidden_, kInputGates * dim, 1, dim};
    for (int i = 0; i < 5; ++i) of.wx_strides[i] = strides[i];
    of.wx = a_.wx != nullptr ? a_.wx : products.wx();
    const int64_t own_strides[] = {kDensePairs * hidden_, dim, kDensePairs * dim};
    of.product = a_.product != nullptr ? a_.product : products.product();
    for (int i = 0; i < 3; ++i) {
      of.product_strides[i] = a_.product != nullptr ? a_.product_strides[i] : own_strides[i];
    }
    forward(of);
  }

  const StepArguments& a_;
  const int64_t hidden_, plane_;
  const EqualStates equal_;
  Scratch params_, b_, R_diag_;
};

static void step(const StepArguments& a) { StepOfLayers(a).run(); }

}  // namespace rnnc
