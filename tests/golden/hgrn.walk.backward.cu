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
RNNC_INLINE real reciprocal(real x) { return real(1) / x; }

// 22 operations per unit
RNNC_INLINE void pointwise_backward(real c, real sigmoid_f, real h, real h_next, real d_h_next,
    real& d_c, real& d_f, real& d_h) {
  constexpr real gamma_ = real(0.0);
  const real t0 = reciprocal(real(1) + exp(-c));
  const real t1 = (real(1) - gamma_)*sigmoid_f;
  const real kept_ = gamma_ + t1;
  d_c = t0*d_h_next*(real(1) - kept_)*(real(1) + c*(real(1) - t0));
  d_f = t1*(real(1) - sigmoid_f)*(d_h_next*h - d_h_next*silu(c));
  d_h = d_h_next*kept_;
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
  real d_c, d_f, d_h;
  pointwise_backward(
      saved[0],
      saved[1],
      before[0],
      after[0],
      d_states[0],
      d_c, d_f, d_h);
  d_gates[0] = d_c;
  d_gates[1] = d_f;
  d_states[0] = d_h;
}

}  // namespace rnnc

namespace rnnc::walk {

// Params, then what follows from them alone: nothing.
constexpr int kFixed = 0;
using UnitValues = real[at_least_one(Cell::kParams + kFixed)];

RNNC_INLINE void fix(UnitValues& param) {
}

}  // namespace rnnc::walk

namespace rnnc::walk_backward {

struct Plan {
  static constexpr int kUnits = 1;  // per thread
  static constexpr bool kWholeWarps = true;  // a warp's units are of one head
  static constexpr int kPlannedShared = 16384;  // bytes per block
  static constexpr int kChunk = 16;  // steps that are taken together
  static constexpr int kNumStages = 4;  // chunks whose data is in flight
  static constexpr bool kSaves = true;  // a forward, for its backward
};

}  // namespace rnnc::walk_backward

#include "lib/kernels/walk/backward.cuh"

extern "C" __global__ void __launch_bounds__(32, 3)
rnnc_backward(const __grid_constant__ rnnc::BackwardArguments arguments) {
  rnnc::walk_backward::run(arguments);
}
