// hgrn: Linear recurrence whose forget gate stays above a bound (Qin et al., 2023).
//   c = x_c
//   f = x_f
//   h' = (gamma + (1 - gamma)*sigmoid(f))*h + (1 - (gamma + (1 - gamma)*sigmoid(f)))*silu(c)
//
// One thread runs all steps of 1 unit of a batch row, with its states in registers. The forward
// saves c, sigmoid_f for the backward, which also reads the states
// h.

namespace rnnc {

using Element = struct bfloat16;
using real = float;

enum class Accuracy { kBfloat16, kFloat16, kExact };
constexpr Accuracy kAccuracy = Accuracy::kBfloat16;
constexpr bool kTf32 = false;

// The sizes of the cell.
struct Cell {
  static constexpr int kStates = 1;  // h
  static constexpr int kGates = 2;  // c, f
  static constexpr int kInputGates = 2;  // the first ones
  static constexpr int kBiasGates = 0;
  static constexpr int kDiagonalPairs = 0;
  static constexpr int kParams = 0;
  static constexpr int kSaved = 2;  // c, sigmoid_f
  static constexpr int kSums = kBiasGates + kParams + kDiagonalPairs;
  // Dense pairs (gate, source), grouped by source.
  static constexpr int kDensePairs = 0;
  static constexpr int kSources = 0;
};

// Tables, which kernels index at run time too. A matrix is the index of a dense pair in R.
__device__ constexpr int kBias[] = {-1};  // bias -> gate
__device__ constexpr int kDiagonalGate[] = {-1};  // diagonal pair -> gate
__device__ constexpr int kDiagonalSource[] = {-1};  // diagonal pair -> state
__device__ constexpr int kDiagonalOrder[] = {-1};  // order of addition -> diagonal pair
__device__ constexpr int kSourceState[] = {-1};  // source -> state
__device__ constexpr int kSourcePairs[] = {1};  // source -> count
__device__ constexpr int kSourceFirstPair[] = {0};  // source -> pair
__device__ constexpr int kPairGate[] = {0};  // pair -> gate
__device__ constexpr int kPairMatrix[] = {0};  // pair -> matrix

// Whether the backward reads the values of each state before a step.
__device__ constexpr bool kReads[] = {true};

}  // namespace rnnc

#include "lib/ptx/element.cuh"
#include "lib/ptx/math.cuh"

namespace rnnc {

RNNC_INLINE real silu(real x) { return x / (real(1) + exp(-x)); }

// 9 operations per unit
template <typename _sigmoid>
RNNC_INLINE void pointwise_forward(real c, real f, real h, real& h_next, real& sigmoid_f,
    _sigmoid& sigmoid) {
  constexpr real gamma_ = real(0.0);
  sigmoid_f = sigmoid(f);
  const real kept_ = gamma_ + (real(1) - gamma_)*sigmoid_f;
  h_next = kept_*h + (real(1) - kept_)*silu(c);
}

// The forward pointwise map of one item, with a given sigmoid.
template <typename Sigmoid>
RNNC_INLINE void apply_pointwise_forward(const real (&gate)[at_least_one(Cell::kGates)],
                                         const real (&state)[Cell::kStates],
                                         const real (&param)[at_least_one(Cell::kParams)],
                                         real (&next)[Cell::kStates],
                                         real (&saved)[at_least_one(Cell::kSaved)], Sigmoid& sigmoid) {
  real h_next, sigmoid_f;
  pointwise_forward(
      gate[0],
      gate[1],
      state[0],
      h_next, sigmoid_f, sigmoid);
  next[0] = h_next;
  saved[0] = gate[0];
  saved[1] = sigmoid_f;
}

}  // namespace rnnc

namespace rnnc::walk {

// Params, then what follows from them alone: nothing.
constexpr int kFixed = 0;
using UnitValues = real[at_least_one(Cell::kParams + kFixed)];

RNNC_INLINE void fix(UnitValues& param) {
}

}  // namespace rnnc::walk

namespace rnnc::walk_forward {

struct Plan {
  static constexpr int kUnits = 1;  // per thread
  static constexpr bool kWholeWarps = true;  // a warp's units are of one head
  static constexpr int kPlannedShared = 8192;  // bytes per block
  static constexpr int kChunk = 16;  // steps that are taken together
  static constexpr int kNumStages = 4;  // chunks whose data is in flight
  static constexpr bool kSaves = true;  // a forward, for its backward
};

}  // namespace rnnc::walk_forward

#include "lib/kernels/walk/forward.cuh"

extern "C" __global__ void __launch_bounds__(32, 3)
rnnc_forward(const __grid_constant__ rnnc::ForwardArguments arguments) {
  rnnc::walk_forward::run(arguments);
}
