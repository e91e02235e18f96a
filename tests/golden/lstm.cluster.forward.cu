// lstm: Long short-term memory (Hochreiter & Schmidhuber, 1997).
//   i = x_i + R_i h + b_i
//   f = x_f + R_f h + b_f
//   z = x_z + R_z h + b_z
//   o = x_o + R_o h + b_o
//   c' = sigmoid(f)*c + sigmoid(i)*tanh(z)
//   h' = sigmoid(o)*tanh(c')
//
// One cluster of blocks per head and 8 batch rows runs all steps, with R in registers: blocks push
// h to each other, and partial sums of their gradients. The forward saves
// sigmoid_i, sigmoid_f, tanh_z, sigmoid_o for the backward, which also reads the states c, c_next.

namespace rnnc {

using Element = struct bfloat16;
using real = float;

enum class Accuracy { kBfloat16, kFloat16, kExact };
constexpr Accuracy kAccuracy = Accuracy::kBfloat16;
constexpr bool kTf32 = false;

__device__ constexpr char kPlanName[] = "lstm, cluster plan of head dim 64";

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

// 9 operations per unit
template <typename _sigmoid>
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real h, real c, real& h_next,
    real& c_next, real& sigmoid_f, real& sigmoid_i, real& sigmoid_o, real& tanh_z,
    _sigmoid& sigmoid) {
  sigmoid_f = sigmoid(f);
  sigmoid_i = sigmoid(i);
  sigmoid_o = sigmoid(o);
  tanh_z = tanh(z);
  c_next = sigmoid_f*c + sigmoid_i*tanh_z;
  h_next = sigmoid_o*tanh(c_next);
}

// The forward pointwise map of one item, with a given sigmoid.
template <typename Sigmoid>
RNNC_INLINE void apply_pointwise_forward(const real (&gate)[at_least_one(Cell::kGates)],
                                         const real (&state)[Cell::kStates],
                                         const real (&param)[at_least_one(Cell::kParams)],
                                         real (&next)[Cell::kStates],
                                         real (&saved)[at_least_one(Cell::kSaved)], Sigmoid& sigmoid) {
  real h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z;
  pointwise_forward(
      gate[0],
      gate[1],
      gate[2],
      gate[3],
      state[0],
      state[1],
      h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z, sigmoid);
  next[0] = h_next;
  next[1] = c_next;
  saved[0] = sigmoid_i;
  saved[1] = sigmoid_f;
  saved[2] = tanh_z;
  saved[3] = sigmoid_o;
}

}  // namespace rnnc

namespace rnnc::cluster_forward {

struct Plan {
  static constexpr int kHeadDim = 64;
  static constexpr int kCluster = 3;  // blocks
  static constexpr int kUnits = 24;  // per block
  static constexpr int kSplits = 1;  // warps that share K
  static constexpr int kNumStages = 8;  // steps whose data is in flight
  static constexpr int kPlannedShared = 18448;  // bytes per block
};


}  // namespace rnnc::cluster_forward

#include "lib/kernels/cluster_forward.cuh"

extern "C" __global__ void __cluster_dims__(3, 1, 1) __launch_bounds__(96, 1)
rnnc_forward(const __grid_constant__ rnnc::ForwardArguments arguments) {
  rnnc::cluster_forward::run(arguments);
}
