// slstm: LSTM with exponential gates, a normaliser n and a stabiliser m (Beck et al., 2024).
//   i = x_i + R_i h + b_i
//   f = x_f + R_f h + b_f
//   z = x_z + R_z h + b_z
//   o = x_o + R_o h + b_o
//   m' = stop_gradient(where((n == 0), i, maximum(i, logsigmoid(f) + m)))
//   n' = exp(minimum(logsigmoid(f) + m - m', 60))*n + exp(i - m')
//   c' = exp(minimum(logsigmoid(f) + m - m', 60))*c + exp(i - m')*tanh(z)
//   h' = sigmoid(o)*c'/n'
// The forward keeps i, f, tanh_z, sigmoid_o for the backward, which reads the states
// c, n, m, c_next, n_next, m_next besides.

namespace rnnc {

using real = float;

constexpr int kStates = 4;  // h, c, n, m
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
constexpr int kDenseOrder[] = {0, 1, 2, 3};  // in which they are added -> dense pair
constexpr int kDiagonalGate[] = {-1};  // diagonal pair -> gate
constexpr int kDiagonalSource[] = {-1};  // diagonal pair -> state
constexpr int kDiagonalOrder[] = {-1};  // in which they are added -> diagonal pair

}  // namespace rnnc

#include "lib/math.h"
#include "lib/layout.h"

namespace rnnc {

RNNC_INLINE real logsigmoid(real x) { return (x > real(0) ? real(0) : x) - log1p(exp(-abs(x))); }
RNNC_INLINE real maximum(real a, real b) { return (a > b || a != a) ? a : b; }
RNNC_INLINE real minimum(real a, real b) { return (a < b || a != a) ? a : b; }
RNNC_INLINE real where(bool condition, real a, real b) { return condition ? a : b; }
RNNC_INLINE real stop_gradient(real x) { return x; }

// 20 operations per unit
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real h, real c, real n, real m,
    real& h_next, real& c_next, real& n_next, real& m_next, real& sigmoid_o, real& tanh_z) {
  sigmoid_o = sigmoid(o);
  tanh_z = tanh(z);
  const real kept_ = logsigmoid(f) + m;
  m_next = stop_gradient(where((n == real(0)), i, maximum(i, kept_)));
  const real f_scale_ = exp(minimum(kept_ - m_next, real(60)));
  const real i_scale_ = exp(i - m_next);
  c_next = f_scale_*c + i_scale_*tanh_z;
  n_next = f_scale_*n + i_scale_;
  h_next = sigmoid_o*c_next/n_next;
}

// 39 operations per unit
RNNC_INLINE void pointwise_backward(real i, real f, real tanh_z, real sigmoid_o, real h, real c,
    real n, real m, real h_next, real c_next, real n_next, real m_next, real d_h_next,
    real d_c_next, real d_n_next, real d_m_next, real& d_f, real& d_i, real& d_o, real& d_z,
    real& d_h, real& d_c, real& d_n, real& d_m) {
  const real t0 = logsigmoid(f) + m - m_next;
  const real f_scale_ = exp(minimum(t0, real(60)));
  const real t1 = real(1)/n_next;
  const real t2 = t1*d_h_next;
  const real d_n_next_sum = d_n_next - t1*t2*(sigmoid_o*c_next);
  const real t3 = t2*sigmoid_o;
  const real d_c_next_sum = t3 + d_c_next;
  const real t4 = f_scale_*(d_n_next_sum*n + d_c_next_sum*c);
  d_m = where((t0 > real(60)), real(0), where((t0 == real(60)), real(0.5)*t4, t4));
  d_f = d_m*sigmoid(-f);
  const real i_scale_ = exp(i - m_next);
  d_i = i_scale_*(d_n_next_sum + d_c_next_sum*tanh_z);
  d_o = t3*c_next*(real(1) - sigmoid_o);
  d_z = d_c_next_sum*i_scale_*(real(1) - tanh_z*tanh_z);
  d_c = d_c_next_sum*f_scale_;
  d_n = d_n_next_sum*f_scale_;
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
    real h_next, c_next, n_next, m_next, sigmoid_o, tanh_z;
    pointwise_forward(
        gates[0 * width + d],
        gates[1 * width + d],
        gates[2 * width + d],
        gates[3 * width + d],
        before[0][offset + d],
        before[1][offset + d],
        before[2][offset + d],
        before[3][offset + d],
        h_next, c_next, n_next, m_next, sigmoid_o, tanh_z);
    after[0][offset + d] = h_next;
    after[1][offset + d] = c_next;
    after[2][offset + d] = n_next;
    after[3][offset + d] = m_next;
    if constexpr (keep) {
      kept[0 * dim + d] = gates[0 * width + d];
      kept[1 * dim + d] = gates[1 * width + d];
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
    real d_f, d_i, d_o, d_z, d_h, d_c, d_n, d_m;
    pointwise_backward(
        kept[0 * dim + d],
        kept[1 * dim + d],
        kept[2 * dim + d],
        kept[3 * dim + d],
        0,
        before[1][offset + d],
        before[2][offset + d],
        before[3][offset + d],
        0,
        after[1][offset + d],
        after[2][offset + d],
        after[3][offset + d],
        d_states[0 * state_width + d],
        d_states[1 * state_width + d],
        d_states[2 * state_width + d],
        0,
        d_f, d_i, d_o, d_z, d_h, d_c, d_n, d_m);
    d_gates[0 * dim + d] = d_i;
    d_gates[1 * dim + d] = d_f;
    d_gates[2 * dim + d] = d_z;
    d_gates[3 * dim + d] = d_o;
    d_states[0 * state_width + d] = d_h;
    d_states[1 * state_width + d] = d_c;
    d_states[2 * state_width + d] = d_n;
    d_states[3 * state_width + d] = d_m;
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
