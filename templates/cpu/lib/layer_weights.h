// The weights and the first states of the layers of a module, as a call of all of them has them.
#pragma once

#include "layout.h"

namespace rnnc {

// W, R, b, R_diag, and each param. Rows of the first four are in the order head, gate, unit.
constexpr int kLayerWeights = 4 + kParams;

// The states of which the caller gives none: each has one value.
class EqualStates {
 public:
  EqualStates(const real* const* given, const double* values, int64_t plane)
      : plane_(plane), memory_(count_equal(given) * plane) {
    int64_t filled = 0;
    for (int s = 0; s < kStates; ++s) {
      if (given[s] != nullptr) continue;
      real* const to = memory_ + filled++ * plane;
      planes_[s] = to;
      for (int64_t i = 0; i < plane && values[s] != 0; ++i) to[i] = (real)values[s];
    }
    for (int p = 0; p < kDensePairs; ++p) {
      const int s = kDenseSource[p];
      zero_for_matrices_ = zero_for_matrices_ && given[s] == nullptr && values[s] == 0;
    }
  }

  const real* or_given(int state, const real* given, int64_t layer) const {
    return given != nullptr ? given + layer * plane_ : planes_[state];
  }

  // Whether matrices multiply nothing but zeros.
  bool zero_for_matrices() const { return zero_for_matrices_; }

 private:
  static int64_t count_equal(const real* const* given) {
    int64_t count = 0;
    for (int s = 0; s < kStates; ++s) count += given[s] == nullptr;
    return count;
  }

  const int64_t plane_;
  Scratch memory_;
  const real* planes_[kStates] = {};
  bool zero_for_matrices_ = true;
};

// The params of a layer beside each other, [params][N][D].
static const real* gather_params(const real* const* weights, real* to, int64_t hidden) {
  for (int i = 0; i < kParams; ++i) copy_row(weights[4 + i], to + i * hidden, hidden);
  return to;
}

// Vectors of gates in the order gate, head, unit: those given, if there is one head.
static const real* by_gate(const real* given, int64_t gates, const Sizes& sizes, real* to) {
  if (given == nullptr || sizes.heads == 1) return given;
  for (int64_t head = 0; head < sizes.heads; ++head) {
    for (int64_t gate = 0; gate < gates; ++gate) {
      copy_row(given + (head * gates + gate) * sizes.dim,
               to + (gate * sizes.heads + head) * sizes.dim, sizes.dim);
    }
  }
  return to;
}

}  // namespace rnnc
