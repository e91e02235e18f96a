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
RNNC_INLINE real maximum(real a, real b) { return (a > b || a != a) ? a : b; }
RNNC_INLINE real minimum(real a, real b) { return (a < b || a != a) ? a : b; }
RNNC_INLINE real where(bool condition, real a, real b) { return condition ? a : b; }
RNNC_INLINE real stop_gradient(real x) { return x; }

// 20 operations per unit
template <typename _sigmoid>
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real h, real c, real n, real m,
    real& h_next, real& c_next, real& n_next, real& m_next, real& sigmoid_o, real& tanh_z,
    _sigmoid& sigmoid) {
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

// The forward pointwise map of one item, with a given sigmoid.
template <typename Sigmoid>
RNNC_INLINE void apply_pointwise_forward(const real (&gate)[at_least_one(Cell::kGates)],
                                         const real (&state)[Cell::kStates],
                                         const real (&param)[at_least_one(Cell::kParams)],
                                         real (&next)[Cell::kStates],
                                         real (&saved)[at_least_one(Cell::kSaved)], Sigmoid& sigmoid) {
  real h_next, c_next, n_next, m_next, sigmoid_o, tanh_z;
  pointwise_forward(
      gate[0],
      gate[1],
      gate[2],
      gate[3],
      state[0],
      state[1],
      state[2],
      state[3],
      h_next, c_next, n_next, m_next, sigmoid_o, tanh_z, sigmoid);
  next[0] = h_next;
  next[1] = c_next;
  next[2] = n_next;
  next[3] = m_next;
  saved[0] = gate[0];
  saved[1] = gate[1];
  saved[2] = tanh_z;
  saved[3] = sigmoid_o;
}

}  // namespace rnnc

namespace rnnc::block_forward {

struct Plan {
  static constexpr int kHeadDim = 64;
  static constexpr int kThreadRows = 1;  // batch rows per thread
  static constexpr int kBlockRows = 4 * kThreadRows;
  static constexpr int kUnitGroups = 2;  // of 8 units, per warp
  static constexpr int kWarps = 4;
  static constexpr int kNumStages = 8;  // steps whose data is in flight
  static constexpr int kPlannedShared = 19456;  // bytes per block
};

}  // namespace rnnc::block_forward

#include "lib/kernels/block_forward.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
rnnc_forward(const __grid_constant__ rnnc::ForwardArguments arguments) {
  rnnc::block_forward::run(arguments);
}
