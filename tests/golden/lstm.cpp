// lstm: Long short-term memory (Hochreiter & Schmidhuber, 1997).
//   i = x_i + R_i h + b_i
//   f = x_f + R_f h + b_f
//   z = x_z + R_z h + b_z
//   o = x_o + R_o h + b_o
//   c' = sigmoid(f)*c + sigmoid(i)*tanh(z)
//   h' = sigmoid(o)*tanh(c')
// The forward keeps sigmoid_i, sigmoid_f, tanh_z, sigmoid_o for the backward, which reads the states
// c, c_next besides.

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
constexpr bool kSingleStep = false;
constexpr int kBias[] = {0, 1, 2, 3};  // bias -> gate
constexpr int kDenseGate[] = {0, 1, 2, 3};  // dense pair -> gate
constexpr int kDenseSource[] = {0, 0, 0, 0};  // dense pair -> state
constexpr int kDenseOrder[] = {2, 0, 1, 3};  // in which they are added -> dense pair
constexpr int kDiagonalGate[] = {-1};  // diagonal pair -> gate
constexpr int kDiagonalSource[] = {-1};  // diagonal pair -> state
constexpr int kDiagonalOrder[] = {-1};  // in which they are added -> diagonal pair

}  // namespace rnnc

#include "lib/math.h"
#include "lib/layout.h"

namespace rnnc {

// 9 operations per unit
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real h, real c, real& h_next,
    real& c_next, real& sigmoid_f, real& sigmoid_i, real& sigmoid_o, real& tanh_z) {
  sigmoid_f = sigmoid(f);
  sigmoid_i = sigmoid(i);
  sigmoid_o = sigmoid(o);
  tanh_z = tanh(z);
  c_next = sigmoid_f*c + sigmoid_i*tanh_z;
  h_next = sigmoid_o*tanh(c_next);
}

// 20 operations per unit
RNNC_INLINE void pointwise_backward(real sigmoid_i, real sigmoid_f, real tanh_z, real sigmoid_o,
    real h, real c, real h_next, real c_next, real d_h_next, real d_c_next, real& d_f, real& d_i,
    real& d_o, real& d_z, real& d_h, real& d_c) {
  const real t0 = d_h_next*sigmoid_o;
  const real tanh_c_next = tanh(c_next);
  const real d_c_next_sum = d_c_next + t0*(real(1) - tanh_c_next*tanh_c_next);
  d_c = d_c_next_sum*sigmoid_f;
  d_f = d_c*c*(real(1) - sigmoid_f);
  const real t1 = d_c_next_sum*sigmoid_i;
  d_i = t1*tanh_z*(real(1) - sigmoid_i);
  d_o = t0*tanh_c_next*(real(1) - sigmoid_o);
  d_z = t1*(real(1) - tanh_z*tanh_z);
  d_h = real(0);
}

// n units of a row. gates [kGates][width], params [kParams][width], kept [kSaved][dim]; the states
// before and after the step lie at an offset into an array of each state.
template <bool keep>
static void forward_row(const real* gates, const real* const* before, real* const* after,
                        int64_t offset, const real* params, int64_t width, real* kept, int64_t dim,
                        int64_t n) {
#pragma omp simd simdlen(kLanes)
  for (int64_t d = 0; d < n; ++d) {
    real h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z;
    pointwise_forward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        before[0][offset + d],
        before[1][offset + d],
        h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z);
    after[0][offset + d] = h_next;
    after[1][offset + d] = c_next;
    if constexpr (keep) {
      kept[0 * dim + d] = sigmoid_i;
      kept[1 * dim + d] = sigmoid_f;
      kept[2 * dim + d] = tanh_z;
      kept[3 * dim + d] = sigmoid_o;
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
    real d_f, d_i, d_o, d_z, d_h, d_c;
    pointwise_backward(
        kept[0 * dim + d],
        kept[1 * dim + d],
        kept[2 * dim + d],
        kept[3 * dim + d],
        0,
        before[1][offset + d],
        0,
        after[1][offset + d],
        d_states[0 * state_width + d],
        d_states[1 * state_width + d],
        d_f, d_i, d_o, d_z, d_h, d_c);
    d_gates[0 * dim + d] = d_i;
    d_gates[1 * dim + d] = d_f;
    d_gates[2 * dim + d] = d_z;
    d_gates[3 * dim + d] = d_o;
    d_states[0 * state_width + d] = d_h;
    d_states[1 * state_width + d] = d_c;
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
