// gru: Gated recurrent unit (Cho et al., 2014).
//   r = x_r + R_r h + b_r
//   z = x_z + R_z h + b_z
//   n = x_n + b_n
//   m = R_m h + b_m
//   h' = h*sigmoid(z) + (1 - sigmoid(z))*tanh(m*sigmoid(r) + n)
// The backward needs the gates r, z, n, m and the states h.

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
constexpr int kBias[] = {0, 1, 2, 3};
constexpr int kDenseGate[] = {0, 1, 3};
constexpr int kDenseSource[] = {0, 0, 0};
constexpr int kDiagonalGate[] = {-1};
constexpr int kDiagonalSource[] = {-1};
constexpr int kSavedGate[] = {0, 1, 2, 3};
constexpr bool kStateIsRead[] = {true};

}  // namespace rnnc

#include "lib/math.h"
#include "lib/layout.h"

namespace rnnc {

RNNC_INLINE real sigmoid(real x) { return real(1) / (real(1) + exp(-x)); }

// 9 operations a unit
RNNC_INLINE void pointwise_forward(real r, real z, real n, real m, real h, real& h_next) {
  const real sigmoid_z = sigmoid(z);
  h_next = h*sigmoid_z + (real(1) - sigmoid_z)*tanh(m*sigmoid(r) + n);
}

// 21 operations a unit
RNNC_INLINE void pointwise_backward(real r, real z, real n, real m, real h, real h_next,
    real d_h_next, real& d_r, real& d_z, real& d_n, real& d_m, real& d_h) {
  const real sigmoid_r = sigmoid(r);
  const real sigmoid_z = sigmoid(z);
  const real t0 = real(1) - sigmoid_z;
  const real t1 = tanh(m*sigmoid_r + n);
  d_n = d_h_next*t0*(real(1) - t1*t1);
  d_r = d_n*m*sigmoid_r*(real(1) - sigmoid_r);
  d_z = sigmoid_z*t0*(d_h_next*h - d_h_next*t1);
  d_m = d_n*sigmoid_r;
  d_h = d_h_next*sigmoid_z;
}

// One row of units. gates [kGates][width]; states [kStates], state_width apart, updated in place.
static void forward_row(const real* gates, real* states, int64_t state_width, const real* params,
                        int64_t width) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) {
    real h_next;
    pointwise_forward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        states[0 * state_width + d],
        h_next);
    states[0 * state_width + d] = h_next;
  }
}

// One row of units. d_states holds the cotangents of the new states and receives those of the
// previous ones, as far as the pointwise map passes them; d_params is summed.
static void backward_row(const real* gates, const real* previous, const real* next,
                         const real* params, real* d_states, int64_t state_width, real* d_gates,
                         real* d_params, int64_t width) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) {
    real d_r, d_z, d_n, d_m, d_h;
    pointwise_backward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        previous[0 * state_width + d],
        next[0 * state_width + d],
        d_states[0 * state_width + d],
        d_r, d_z, d_n, d_m, d_h);
    d_gates[0 * width + d] = d_r;
    d_gates[1 * width + d] = d_z;
    d_gates[2 * width + d] = d_n;
    d_gates[3 * width + d] = d_m;
    d_states[0 * state_width + d] = d_h;
  }
}

}  // namespace rnnc

#include "lib/forward.h"
#include "lib/backward.h"

extern "C" void rnnc_forward(const rnnc::ForwardArguments* arguments) {
  rnnc::forward(*arguments);
}

extern "C" void rnnc_backward(const rnnc::BackwardArguments* arguments) {
  rnnc::backward(*arguments);
}
