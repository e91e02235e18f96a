// lstm: Long short-term memory (Hochreiter & Schmidhuber, 1997).
//   i = x_i + R_i h + b_i
//   f = x_f + R_f h + b_f
//   z = x_z + R_z h + b_z
//   o = x_o + R_o h + b_o
//   c' = c*sigmoid(f) + tanh(z)*sigmoid(i)
//   h' = tanh(c')*sigmoid(o)
// The backward needs the gates i, f, z, o and the states c, c_next.

namespace rnnc {

using real = float;

constexpr int kStates = 2;  // h, c
constexpr int kGates = 4;  // i, f, z, o
constexpr int kInputGates = 4;  // the first of them
constexpr int kBiasGates = 4;
constexpr int kDensePairs = 4;
constexpr int kDiagonalPairs = 0;
constexpr int kParams = 0;
constexpr int kSaved = 4;
constexpr int kBias[] = {0, 1, 2, 3};
constexpr int kDenseGate[] = {0, 1, 2, 3};
constexpr int kDenseSource[] = {0, 0, 0, 0};
constexpr int kDiagonalGate[] = {-1};
constexpr int kDiagonalSource[] = {-1};
constexpr int kSavedGate[] = {0, 1, 2, 3};
constexpr bool kStateIsRead[] = {false, true};

}  // namespace rnnc

#include "lib/math.h"
#include "lib/layout.h"

namespace rnnc {

RNNC_INLINE real sigmoid(real x) { return real(1) / (real(1) + exp(-x)); }

// 9 operations a unit
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real h, real c, real& h_next,
    real& c_next) {
  c_next = c*sigmoid(f) + sigmoid(i)*tanh(z);
  h_next = sigmoid(o)*tanh(c_next);
}

// 27 operations a unit
RNNC_INLINE void pointwise_backward(real i, real f, real z, real o, real h, real c, real h_next,
    real c_next, real d_h_next, real d_c_next, real& d_i, real& d_f, real& d_z, real& d_o,
    real& d_h, real& d_c) {
  const real sigmoid_i = sigmoid(i);
  const real tanh_z = tanh(z);
  const real sigmoid_o = sigmoid(o);
  const real tanh_c_next = tanh(c_next);
  const real d_c_next_sum = d_c_next + d_h_next*sigmoid_o*(real(1) - tanh_c_next*tanh_c_next);
  d_i = d_c_next_sum*sigmoid_i*tanh_z*(real(1) - sigmoid_i);
  const real sigmoid_f = sigmoid(f);
  d_f = c*d_c_next_sum*sigmoid_f*(real(1) - sigmoid_f);
  d_z = d_c_next_sum*sigmoid_i*(real(1) - tanh_z*tanh_z);
  d_o = d_h_next*sigmoid_o*tanh_c_next*(real(1) - sigmoid_o);
  d_h = real(0);
  d_c = d_c_next_sum*sigmoid_f;
}

// One row of units. gates [kGates][width]; states [kStates], state_width apart, updated in place.
static void forward_row(const real* gates, real* states, int64_t state_width, const real* params,
                        int64_t width) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) {
    real h_next, c_next;
    pointwise_forward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        states[0 * state_width + d],
        states[1 * state_width + d],
        h_next, c_next);
    states[0 * state_width + d] = h_next;
    states[1 * state_width + d] = c_next;
  }
}

// One row of units. d_states holds the cotangents of the new states and receives those of the
// previous ones, as far as the pointwise map passes them; d_params is summed.
static void backward_row(const real* gates, const real* previous, const real* next,
                         const real* params, real* d_states, int64_t state_width, real* d_gates,
                         real* d_params, int64_t width) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) {
    real d_i, d_f, d_z, d_o, d_h, d_c;
    pointwise_backward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        previous[0 * state_width + d],
        previous[1 * state_width + d],
        next[0 * state_width + d],
        next[1 * state_width + d],
        d_states[0 * state_width + d],
        d_states[1 * state_width + d],
        d_i, d_f, d_z, d_o, d_h, d_c);
    d_gates[0 * width + d] = d_i;
    d_gates[1 * width + d] = d_f;
    d_gates[2 * width + d] = d_z;
    d_gates[3 * width + d] = d_o;
    d_states[0 * state_width + d] = d_h;
    d_states[1 * state_width + d] = d_c;
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
