// slstm: LSTM with exponential gates, a normaliser n and a stabiliser m (Beck et al., 2024).
//   i = x_i + R_i h + b_i
//   f = x_f + R_f h + b_f
//   z = x_z + R_z h + b_z
//   o = x_o + R_o h + b_o
//   m' = stop_gradient(where((n == 0), i, maximum(i, logsigmoid(f) + m)))
//   n' = exp(minimum(logsigmoid(f) + m - m', 60))*n + exp(i - m')
//   c' = exp(minimum(logsigmoid(f) + m - m', 60))*c + exp(i - m')*tanh(z)
//   h' = sigmoid(o)*c'/n'
//
// One block per head and 4 batch rows runs all steps, with R in registers and h
// in shared memory. The forward saves i, f, tanh_z, sigmoid_o for the backward, which
// also reads the states c, n, m, c_next, n_next, m_next.

namespace rnnc {

using Element = struct bfloat16;
using real = float;

enum class Accuracy { kBfloat16, kFloat16, kExact };
constexpr Accuracy kAccuracy = Accuracy::kBfloat16;
constexpr bool kTf32 = false;

// The sizes of the cell.
struct Cell {
  static constexpr int kStates = 4;  // h, c, n, m
  static constexpr int kGates = 4;  // i, f, z, o
  static constexpr int kInputGates = 4;  // the first ones
  static constexpr int kBiasGates = 4;
  static constexpr int kDiagonalPairs = 0;
  static constexpr int kParams = 0;
  static constexpr int kSaved = 4;  // i, f, tanh_z, sigmoid_o
  static constexpr int kSums = kBiasGates + kParams + kDiagonalPairs;
  // Dense pairs (gate, source), grouped by source.
  static constexpr int kDensePairs = 4;
  static constexpr int kSources = 1;
};

// Tables, which kernels index at run time too. A matrix is the index of a dense pair in R.
__device__ constexpr int kBias[] = {0, 1, 2, 3};  // bias -> gate
__device__ constexpr int kDiagonalGate[] = {-1};  // diagonal pair -> gate
__device__ constexpr int kDiagonalSource[] = {-1};  // diagonal pair -> state
__device__ constexpr int kDiagonalOrder[] = {-1};  // order of addition -> diagonal pair
__device__ constexpr int kSourceState[] = {0};  // source -> state
__device__ constexpr int kSourcePairs[] = {4};  // source -> count
__device__ constexpr int kSourceFirstPair[] = {0};  // source -> pair
__device__ constexpr int kPairGate[] = {0, 1, 2, 3};  // pair -> gate
__device__ constexpr int kPairMatrix[] = {0, 1, 2, 3};  // pair -> matrix

// Whether the backward reads the values of each state before a step.
__device__ constexpr bool kReads[] = {false, true, true, true};

}  // namespace rnnc

#include "lib/ptx/element.cuh"
#include "lib/ptx/math.cuh"

namespace rnnc {

RNNC_INLINE real logsigmoid(real x) { return (x > real(0) ? real(0) : x) - log1p(exp(-abs(x))); }
RNNC_INLINE real minimum(real a, real b) { return (a < b || a != a) ? a : b; }
RNNC_INLINE real where(bool condition, real a, real b) { return condition ? a : b; }

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

// The backward pointwise map of one item: replaces the gradients of the states after the step by those
// of the states before it.
RNNC_INLINE void apply_pointwise_backward(const real (&saved)[at_least_one(Cell::kSaved)],
                                          const real (&before)[Cell::kStates],
                                          const real (&after)[Cell::kStates],
                                          const real (&param)[at_least_one(Cell::kParams)],
                                          real (&d_states)[Cell::kStates],
                                          real (&d_gates)[at_least_one(Cell::kGates)],
                                          real (&d_params)[at_least_one(Cell::kParams)]) {
  real d_f, d_i, d_o, d_z, d_h, d_c, d_n, d_m;
  pointwise_backward(
      saved[0],
      saved[1],
      saved[2],
      saved[3],
      before[0],
      before[1],
      before[2],
      before[3],
      after[0],
      after[1],
      after[2],
      after[3],
      d_states[0],
      d_states[1],
      d_states[2],
      d_states[3],
      d_f, d_i, d_o, d_z, d_h, d_c, d_n, d_m);
  d_gates[0] = d_i;
  d_gates[1] = d_f;
  d_gates[2] = d_z;
  d_gates[3] = d_o;
  d_states[0] = d_h;
  d_states[1] = d_c;
  d_states[2] = d_n;
  d_states[3] = d_m;
}

}  // namespace rnnc

namespace rnnc::block_backward {

struct Plan {
  static constexpr int kHeadDim = 64;
  static constexpr int kThreadRows = 1;  // batch rows per thread
  static constexpr int kBlockRows = 4 * kThreadRows;
  static constexpr int kWarps = 4;
  static constexpr int kNumStages = 8;  // steps whose data is in flight
  static constexpr int kPlannedShared = 62464;  // bytes per block
};

}  // namespace rnnc::block_backward

#include "lib/kernels/block_backward.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
rnnc_backward(const __grid_constant__ rnnc::BackwardArguments arguments) {
  rnnc::block_backward::run(arguments);
}
