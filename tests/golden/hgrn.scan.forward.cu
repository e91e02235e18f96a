// hgrn: Linear recurrence whose forget gate stays above a bound (Qin et al., 2023).
//   c = x_c
//   f = x_f
//   h' = (gamma + (1 - gamma)*sigmoid(f))*h + (1 - (gamma + (1 - gamma)*sigmoid(f)))*silu(c)
//
// Blocks compute tiles of 64 steps of 32 channels, and carry the states
// h from tile to tile. The forward saves c, sigmoid_f
// for the backward, which also reads the states h.

namespace rnnc {

using Element = struct bfloat16;
using real = float;

enum class Accuracy { kBfloat16, kFloat16, kExact };
constexpr Accuracy kAccuracy = Accuracy::kBfloat16;
constexpr bool kTf32 = false;

__device__ constexpr char kPlanName[] = "hgrn, scan plan";

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

namespace rnnc::scan {

struct Plan {
  static constexpr int kWarps = 4;
  static constexpr int kChunk = 16;  // steps per thread
  static constexpr int kParts = 1;  // of a warp, with other steps of the same channels
  static constexpr bool kSequential = true;  // a block takes all tiles of its channels
  static constexpr bool kWholeWarps = true;  // a warp's units are of one head
  static constexpr bool kSaves = true;  // a forward, for its backward
};

struct Form {
  static constexpr int kCarried = 1;  // h
  static constexpr int kMaxima = 0;  // the first ones
  static constexpr int kLinear = kCarried - kMaxima;
};
__device__ constexpr int kCarriedState[] = {0};  // carried -> state

}  // namespace rnnc::scan

namespace rnnc::scan_forward {

constexpr int kPlannedShared = 17280;  // bytes per block
constexpr int kEarly = 3;  // _early_0, kept, _early_1
using Early = real[at_least_one(kEarly)];

template <typename _sigmoid>
RNNC_INLINE void step_early(real c, real f, real& _early_0_, real& kept_, real& _early_1_,
    _sigmoid& sigmoid) {
  constexpr real gamma_ = real(0.0);
  _early_0_ = sigmoid(f);
  kept_ = gamma_ + (real(1) - gamma_)*_early_0_;
  _early_1_ = (real(1) - kept_)*silu(c);
}

template <typename _sigmoid>
RNNC_INLINE void step_late(real c, real f, real h, real _early_0_, real kept_, real _early_1_,
    real& h_next, real& sigmoid_f, _sigmoid& sigmoid) {
  sigmoid_f = _early_0_;
  h_next = kept_*h + _early_1_;
}

// What of a step does not wait for the states that are carried.
template <typename Sigmoid>
RNNC_INLINE void apply_early(const real (&gate)[at_least_one(Cell::kGates)],
                             const walk::UnitValues& param,
                             const real (&diagonal)[at_least_one(Cell::kDiagonalPairs)],
                             Early& early, Sigmoid& sigmoid) {
  step_early(
      gate[0],
      gate[1],
      early[0],
      early[1],
      early[2],
      sigmoid);
}
// The rest of the step.
template <typename Sigmoid>
RNNC_INLINE void apply_late(const real (&gate)[at_least_one(Cell::kGates)],
                            const real (&state)[Cell::kStates], const walk::UnitValues& param,
                            const Early& early, real (&next)[Cell::kStates],
                            real (&saved)[at_least_one(Cell::kSaved)], Sigmoid& sigmoid) {
  real h_next, sigmoid_f;
  step_late(
      gate[0],
      gate[1],
      state[0],
      early[0],
      early[1],
      early[2],
      h_next, sigmoid_f, sigmoid);
  next[0] = h_next;
  saved[0] = gate[0];
  saved[1] = sigmoid_f;
}
// What maxima add to their states.
RNNC_INLINE void apply_shifts(const Early& early, real (&shift)[at_least_one(scan::Form::kMaxima)]) {
}
// Replaces columns of the map of the steps before a step by those of the map with the step. Of the
// states those that become maxima are known.
template <typename Factor, int n, typename Sigmoid>
RNNC_INLINE void apply_matrix(const real (&gate)[at_least_one(Cell::kGates)],
                              const real (&state)[Cell::kStates], const walk::UnitValues& param,
                              const real (&diagonal)[at_least_one(Cell::kDiagonalPairs)],
                              const Early& early, Factor (&column)[n][n], Sigmoid& sigmoid) {
  repeat<scan::Form::kLinear>([&](int j) {
    Factor found[n];
    found[0] = early[1]*column[j][0];
    assign(column[j], found);
  });
}

}  // namespace rnnc::scan_forward

#include "lib/kernels/scan/forward.cuh"

extern "C" __global__ void __launch_bounds__(128, 3)
rnnc_forward(const __grid_constant__ rnnc::scan::ScanArguments<rnnc::ForwardArguments> arguments) {
  rnnc::scan_forward::run(arguments);
}
