// gru: Gated recurrent unit (Cho et al., 2014).
//   r = x_r + R_r h + b_r
//   z = x_z + R_z h + b_z
//   n = x_n + b_n
//   m = R_m h + b_m
//   h' = (1 - sigmoid(z))*tanh(n + sigmoid(r)*m) + sigmoid(z)*h
// The forward keeps sigmoid_r, sigmoid_z, n, m for the backward, which reads the states
// h besides.

namespace rnnc {

using real = float;

constexpr int kStates = 1;  // h
constexpr int kGates = 4;  // r, z, n, m
constexpr int kInputGates = 3;  // the first of them
constexpr int kBiasGates = 4;
constexpr int kDensePairs = 3;
constexpr int kDiagonalPairs = 0;
constexpr int kParams = 0;
constexpr int kSaved = 4;
constexpr bool kSingleStep = false;
constexpr int kBias[] = {0, 1, 2, 3};  // bias -> gate
constexpr int kDenseGate[] = {0, 1, 3};  // dense pair -> gate
constexpr int kDenseSource[] = {0, 0, 0};  // dense pair -> state
constexpr int kDenseOrder[] = {0, 2, 1};  // in which they are added -> dense pair
constexpr int kDiagonalGate[] = {-1};  // diagonal pair -> gate
constexpr int kDiagonalSource[] = {-1};  // diagonal pair -> state
constexpr int kDiagonalOrder[] = {-1};  // in which they are added -> diagonal pair

}  // namespace rnnc

#include "lib/math.h"
#include "lib/layout.h"

namespace rnnc {

// 9 operations per unit
RNNC_INLINE void pointwise_forward(real r, real z, real n, real m, real h, real& h_next,
    real& sigmoid_r, real& sigmoid_z) {
  sigmoid_r = sigmoid(r);
  sigmoid_z = sigmoid(z);
  h_next = (real(1) - sigmoid_z)*tanh(n + sigmoid_r*m) + sigmoid_z*h;
}

// 18 operations per unit
RNNC_INLINE void pointwise_backward(real sigmoid_r, real sigmoid_z, real n, real m, real h,
    real h_next, real d_h_next, real& d_m, real& d_n, real& d_r, real& d_z, real& d_h) {
  const real t0 = real(1) - sigmoid_z;
  const real t1 = tanh(n + sigmoid_r*m);
  d_n = d_h_next*t0*(real(1) - t1*t1);
  d_m = d_n*sigmoid_r;
  d_r = d_m*m*(real(1) - sigmoid_r);
  d_z = sigmoid_z*t0*(d_h_next*h - d_h_next*t1);
  d_h = d_h_next*sigmoid_z;
}

// n units of a row. gates [kGates][width], params [kParams][width], kept [kSaved][dim]; the states
// before and after the step lie at an offset into an array of each state.
template <bool keep>
static void forward_row(const real* gates, const real* const* before, real* const* after,
                        int64_t offset, const real* params, int64_t width, real* kept, int64_t dim,
                        int64_t n) {
#pragma omp simd simdlen(kLanes)
  for (int64_t d = 0; d < n; ++d) {
    real h_next, sigmoid_r, sigmoid_z;
    pointwise_forward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        before[0][offset + d],
        h_next, sigmoid_r, sigmoid_z);
    after[0][offset + d] = h_next;
    if constexpr (keep) {
      kept[0 * dim + d] = sigmoid_r;
      kept[1 * dim + d] = sigmoid_z;
      kept[2 * dim + d] = gates[2 * width + d];
      kept[3 * dim + d] = gates[3 * width + d];
    }
  }
}

// n units of a row. d_states [kStates], state_width apart, holds the cotangents of the new states
// and receives those of the previous ones, as far as the pointwise map passes them; d_gates
// [kGates][dim] is written, d_params [kParams][width] is summed.
static void backward_row(const real* kept, const real* const* before, const real* const* after,
                         int64_t offset, const real* params, int64_t width, real* d_states,
                         int64_t state_width, real* d_gates, real* d_params, int64_t dim,
                         int64_t n) {
#pragma omp simd simdlen(kLanes)
  for (int64_t d = 0; d < n; ++d) {
    real d_m, d_n, d_r, d_z, d_h;
    pointwise_backward(
        kept[0 * dim + d],
        kept[1 * dim + d],
        kept[2 * dim + d],
        kept[3 * dim + d],
        before[0][offset + d],
        0,
        d_states[0 * state_width + d],
        d_m, d_n, d_r, d_z, d_h);
    d_gates[0 * dim + d] = d_r;
    d_gates[1 * dim + d] = d_z;
    d_gates[2 * dim + d] = d_n;
    d_gates[3 * dim + d] = d_m;
    d_states[0 * state_width + d] = d_h;
  }
}

}  // namespace rnnc

#include "lib/forward.h"
#include "lib/backward.h"
#include "lib/layers.h"

extern "C" void rnnc_layers(const rnnc::LayersArguments* arguments) {
  rnnc::Layers(*arguments).run();
}

extern "C" void rnnc_forward(const rnnc::ForwardArguments* arguments) {
  rnnc::forward(*arguments);
}

extern "C" void rnnc_backward(const rnnc::BackwardArguments* arguments) {
  rnnc::backward(*arguments);
}
