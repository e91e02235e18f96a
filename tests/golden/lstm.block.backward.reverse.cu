// lstm: Long short-term memory (Hochreiter & Schmidhuber, 1997).
//   i = x_i + R_i h + b_i
//   f = x_f + R_f h + b_f
//   z = x_z + R_z h + b_z
//   o = x_o + R_o h + b_o
//   c' = sigmoid(f)*c + sigmoid(i)*tanh(z)
//   h' = sigmoid(o)*tanh(c')
//
// One block per head and 4 batch rows runs all steps, with R in registers and h
// in shared memory. The forward saves sigmoid_i, sigmoid_f, tanh_z, sigmoid_o for the backward, which
// also reads the states c, c_next.

#define RNNC_REVERSE  // the cell runs from the last step to the first

namespace rnnc {

using Element = struct bfloat16;
using real = float;

enum class Accuracy { kBfloat16, kFloat16, kExact };
constexpr Accuracy kAccuracy = Accuracy::kBfloat16;
constexpr bool kTf32 = false;

// The sizes of the cell.
struct Cell {
  static constexpr int kStates = 2;  // h, c
  static constexpr int kGates = 4;  // i, f, z, o
  static constexpr int kInputGates = 4;  // the first ones
  static constexpr int kBiasGates = 4;
  static constexpr int kDiagonalPairs = 0;
  static constexpr int kParams = 0;
  static constexpr int kSaved = 4;  // sigmoid_i, sigmoid_f, tanh_z, sigmoid_o
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
__device__ constexpr int kPairGate[] = {2, 0, 1, 3};  // pair -> gate
__device__ constexpr int kPairMatrix[] = {2, 0, 1, 3};  // pair -> matrix

// Whether the backward reads the values of each state before a step.
__device__ constexpr bool kReads[] = {false, true};

}  // namespace rnnc

#include "lib/ptx/element.cuh"
#include "lib/ptx/math.cuh"

namespace rnnc {

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

// The backward pointwise map of one item: replaces the gradients of the states after the step by those
// of the states before it.
RNNC_INLINE void apply_pointwise_backward(const real (&saved)[at_least_one(Cell::kSaved)],
                                          const real (&before)[Cell::kStates],
                                          const real (&after)[Cell::kStates],
                                          const real (&param)[at_least_one(Cell::kParams)],
                                          real (&d_states)[Cell::kStates],
                                          real (&d_gates)[at_least_one(Cell::kGates)],
                                          real (&d_params)[at_least_one(Cell::kParams)]) {
  real d_f, d_i, d_o, d_z, d_h, d_c;
  pointwise_backward(
      saved[0],
      saved[1],
      saved[2],
      saved[3],
      before[0],
      before[1],
      after[0],
      after[1],
      d_states[0],
      d_states[1],
      d_f, d_i, d_o, d_z, d_h, d_c);
  d_gates[0] = d_i;
  d_gates[1] = d_f;
  d_gates[2] = d_z;
  d_gates[3] = d_o;
  d_states[0] = d_h;
  d_states[1] = d_c;
}

}  // namespace rnnc

namespace rnnc::block_backward {

struct Plan {
  static constexpr int kHeadDim = 64;
  static constexpr int kThreadRows = 1;  // batch rows per thread
  static constexpr int kBlockRows = 4 * kThreadRows;
  static constexpr int kWarps = 4;
  static constexpr int kNumStages = 8;  // steps whose data is in flight
  static constexpr int kPlannedShared = 44032;  // bytes per block
};

}  // namespace rnnc::block_backward

#include "lib/kernels/block_backward.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
rnnc_backward(const __grid_constant__ rnnc::BackwardArguments arguments) {
  rnnc::block_backward::run(arguments);
}
