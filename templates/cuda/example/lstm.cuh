// What the generated sources of an LSTM define ahead of the library's headers: with RNNC_PLAIN
// those of plain plans, which define no switch; without it those of an LSTM with an input that no
// weight multiplies and a call draws, with all switches.
//
// `RNNC_UPDATE_GOLDEN=1 pytest tests/templates/cuda/test_example.py` writes this file. It joins the
// sources of one plan of each kind, without their kernels. Where sources define the same name, the
// first definition is here. Editors (compile_flags.txt) or an index.cu include this file ahead of
// any header.
#pragma once

#ifndef RNNC_PLAIN
#define RNNC_REVERSE_HALF  // the second half of the heads runs from the last step to the first
#define RNNC_MASKED  // rows have lengths and resets
#define RNNC_RESETS_AHEAD  // values after resets that differ between steps are in shared memory ahead of the step
#define RNNC_UNWEIGHTED  // the last gates are inputs of the cell that no weight multiplies
#define RNNC_UNWEIGHTED_ROWS  // calls draw them: the units of a row are contiguous
#define RNNC_REVERSE  // the cell runs from the last step to the first
#define RNNC_WAVEFRONT  // the kernel hands over chunks of steps
#define RNNC_RESETS_LATE  // values after resets that differ between steps are loaded where rows restart
#define RNNC_GATES_AGAIN  // gates are computed from their inputs, which a forward does not save

#endif
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
#ifndef RNNC_PLAIN
  static constexpr int kUnweighted = 1;  // the last ones
#endif
  static constexpr int kBiasGates = 4;
  static constexpr int kDiagonalPairs = 0;
  static constexpr int kParams = 0;
#ifdef RNNC_PLAIN
  static constexpr int kSaved = 4;  // sigmoid_i, sigmoid_f, tanh_z, sigmoid_o
#else
  static constexpr int kSaved = 4;  // i, f, z, o
#endif
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
#ifdef RNNC_PLAIN
__device__ constexpr int kPairGate[] = {2, 0, 1, 3};  // pair -> gate
__device__ constexpr int kPairMatrix[] = {2, 0, 1, 3};  // pair -> matrix
#else
__device__ constexpr int kPairGate[] = {1, 2, 0, 3};  // pair -> gate
__device__ constexpr int kPairMatrix[] = {1, 2, 0, 3};  // pair -> matrix
#endif

// Whether the backward reads the values of each state before a step.
__device__ constexpr bool kReads[] = {false, true};

}  // namespace rnnc

#include "lib/ptx/element.cuh"
#include "lib/ptx/math.cuh"

namespace rnnc {

#ifdef RNNC_PLAIN
// 20 operations per unit
RNNC_INLINE void pointwise_backward(real sigmoid_i, real sigmoid_f, real tanh_z, real sigmoid_o,
    real h, real c, real h_next, real c_next, real d_h_next, real d_c_next, real& d_f, real& d_i,
    real& d_o, real& d_z, real& d_h, real& d_c) {
#else
// 25 operations per unit
RNNC_INLINE void pointwise_backward(real i, real f, real z, real o, real h, real c, real h_next,
    real c_next, real d_h_next, real d_c_next, real decay_, real& d_f, real& d_i, real& d_o,
    real& d_z, real& d_h, real& d_c) {
  const real sigmoid_o = sigmoid(o);
#endif
  const real t0 = d_h_next*sigmoid_o;
  const real tanh_c_next = tanh(c_next);
  const real d_c_next_sum = d_c_next + t0*(real(1) - tanh_c_next*tanh_c_next);
#ifdef RNNC_PLAIN
  d_c = d_c_next_sum*sigmoid_f;
#else
  const real sigmoid_f = sigmoid(f);
  d_c = d_c_next_sum*sigmoid_f*decay_;
#endif
  d_f = d_c*c*(real(1) - sigmoid_f);
#ifndef RNNC_PLAIN
  const real sigmoid_i = sigmoid(i);
#endif
  const real t1 = d_c_next_sum*sigmoid_i;
#ifndef RNNC_PLAIN
  const real tanh_z = tanh(z);
#endif
  d_i = t1*tanh_z*(real(1) - sigmoid_i);
  d_o = t0*tanh_c_next*(real(1) - sigmoid_o);
  d_z = t1*(real(1) - tanh_z*tanh_z);
  d_h = real(0);
}

// The backward pointwise map of one item: replaces the gradients of the states after the step by those
// of the states before it.
#ifdef RNNC_PLAIN
RNNC_INLINE void apply_pointwise_backward(const real (&saved)[at_least_one(Cell::kSaved)],
#else
RNNC_INLINE void apply_pointwise_backward(const real (&saved)[Cell::kSaved + Cell::kUnweighted],
#endif
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
#ifndef RNNC_PLAIN
      saved[Cell::kSaved + 0],
#endif
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
#ifdef RNNC_PLAIN
  static constexpr int kPlannedShared = 44032;  // bytes per block
#else
  static constexpr int kPlannedShared = 53248;  // bytes per block
#endif
};

}  // namespace rnnc::block_backward

namespace rnnc {

#ifdef RNNC_PLAIN
// 9 operations per unit
#else
// 10 operations per unit
#endif
template <typename _sigmoid>
#ifdef RNNC_PLAIN
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real h, real c, real& h_next,
    real& c_next, real& sigmoid_f, real& sigmoid_i, real& sigmoid_o, real& tanh_z,
    _sigmoid& sigmoid) {
  sigmoid_f = sigmoid(f);
  sigmoid_i = sigmoid(i);
  sigmoid_o = sigmoid(o);
  tanh_z = tanh(z);
  c_next = sigmoid_f*c + sigmoid_i*tanh_z;
  h_next = sigmoid_o*tanh(c_next);
#else
RNNC_INLINE void pointwise_forward(real i, real f, real z, real o, real decay_, real h, real c,
    real& h_next, real& c_next, _sigmoid& sigmoid) {
  c_next = sigmoid(f)*c*decay_ + sigmoid(i)*tanh(z);
  h_next = sigmoid(o)*tanh(c_next);
#endif
}

// The forward pointwise map of one item, with a given sigmoid.
template <typename Sigmoid>
RNNC_INLINE void apply_pointwise_forward(const real (&gate)[at_least_one(Cell::kGates)],
                                         const real (&state)[Cell::kStates],
                                         const real (&param)[at_least_one(Cell::kParams)],
                                         real (&next)[Cell::kStates],
                                         real (&saved)[at_least_one(Cell::kSaved)], Sigmoid& sigmoid) {
#ifdef RNNC_PLAIN
  real h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z;
#else
  real h_next, c_next;
#endif
  pointwise_forward(
      gate[0],
      gate[1],
      gate[2],
      gate[3],
#ifndef RNNC_PLAIN
      gate[4],
#endif
      state[0],
      state[1],
#ifdef RNNC_PLAIN
      h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z, sigmoid);
#else
      h_next, c_next, sigmoid);
#endif
  next[0] = h_next;
  next[1] = c_next;
#ifdef RNNC_PLAIN
  saved[0] = sigmoid_i;
  saved[1] = sigmoid_f;
  saved[2] = tanh_z;
  saved[3] = sigmoid_o;
#else
  saved[0] = gate[0];
  saved[1] = gate[1];
  saved[2] = gate[2];
  saved[3] = gate[3];
#endif
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
#ifdef RNNC_PLAIN
  static constexpr int kPlannedShared = 19456;  // bytes per block
#else
  static constexpr int kPlannedShared = 33280;  // bytes per block
#endif
};

}  // namespace rnnc::block_forward

namespace rnnc {

#ifdef RNNC_PLAIN
__device__ constexpr char kPlanName[] = "lstm, cluster plan of head dim 128";
#else
__device__ constexpr char kPlanName[] = "decaying_lstm, block plan of head dim 64";
#endif

}  // namespace rnnc

namespace rnnc::cluster_backward {

struct Plan {
  static constexpr int kHeadDim = 128;
  static constexpr int kCluster = 8;  // blocks
  static constexpr int kUnits = 16;  // per block
  static constexpr int kWarps = 4;
  static constexpr int kNumStages = 8;  // steps whose data is in flight
#ifdef RNNC_PLAIN
  static constexpr int kPlannedShared = 34832;  // bytes per block
#else
  static constexpr int kPlannedShared = 43024;  // bytes per block
#endif
  // Whether the backward pointwise map is linear in the gradients of the states after a step.
  static constexpr bool kLinear = true;
};

// Whether the gradient of each state after a step reaches that of a gate, a state before it, a param.
__device__ constexpr bool kReachesGate[][at_least_one(Cell::kGates)] = {
    {true, true, true, true},
    {true, true, true, false},
};
__device__ constexpr bool kReachesState[][at_least_one(Cell::kStates)] = {
    {false, true},
    {false, true},
};
__device__ constexpr bool kReachesParam[][at_least_one(Cell::kParams)] = {
    {false},
    {false},
};

}  // namespace rnnc::cluster_backward

namespace rnnc::cluster_forward {

struct Plan {
  static constexpr int kHeadDim = 128;
  static constexpr int kCluster = 8;  // blocks
  static constexpr int kUnits = 16;  // per block
  static constexpr int kSplits = 1;  // warps that share K
  static constexpr int kNumStages = 8;  // steps whose data is in flight
#ifdef RNNC_PLAIN
  static constexpr int kPlannedShared = 14352;  // bytes per block
#else
  static constexpr int kPlannedShared = 20496;  // bytes per block
#endif
};

}  // namespace rnnc::cluster_forward

namespace rnnc::grid_backward {

struct Plan {
  static constexpr int kHeadDim = 256;
  static constexpr int kRowTiles = 1;  // tiles of 8 batch rows per group of blocks
  static constexpr int kPhases = 1;  // per step: parts of those rows, one after the other
  static constexpr int kBlocks = 16;  // per head
  static constexpr int kUnits = 16;  // per block
  static constexpr int kWarps = 8;
  static constexpr int kCluster = 1;  // blocks
  static constexpr int kRegisterKTiles = 4;  // per warp
  static constexpr int kStreamedKTiles = 0;
  static constexpr int kPlannedShared = 12288;  // bytes per block
  static constexpr int kPlannedStreamed = 0;
};

}  // namespace rnnc::grid_backward

namespace rnnc::grid_forward {

struct Plan {
  static constexpr int kHeadDim = 256;
  static constexpr int kRowTiles = 1;  // tiles of 8 batch rows per group of blocks
  static constexpr int kPhases = 1;  // per step: parts of those rows, one after the other
  static constexpr int kBlocks = 16;  // per head
  static constexpr int kUnits = 16;  // per block
  static constexpr int kWarps = 4;
  static constexpr int kRegisterKTiles = 2;  // per warp
  static constexpr int kStreamedKTiles = 0;
  static constexpr int kPlannedShared = 17408;  // bytes per block
  static constexpr int kPlannedStreamed = 0;
};

}  // namespace rnnc::grid_forward

namespace rnnc::alternating {

struct Plan {
  static constexpr bool kFused = true;
  static constexpr int kRowTiles = 1;  // of 16 batch rows, per block
  static constexpr int kWarps = 8;
  static constexpr int kSplit = 4;  // blocks that share K
  static constexpr int kNumStages = 3;  // k_tiles in flight per warp
};

}  // namespace rnnc::alternating

#ifndef RNNC_PLAIN
namespace rnnc {

__device__ constexpr int kSavedGate[] = {0, 1, 2, 3};  // value that the backward reads -> gate
// Whether the backward reads the values of each state before a step.

}  // namespace rnnc

#endif
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
#ifdef RNNC_PLAIN
  static constexpr int kPlannedShared = 28672;  // bytes per block
  static constexpr int kChunk = 8;  // steps that are taken together
  static constexpr int kNumStages = 8;  // chunks whose data is in flight
  static constexpr bool kSaves = true;  // a forward, for its backward
#else
  static constexpr int kPlannedShared = 41216;  // bytes per block
  static constexpr int kChunk = 4;  // steps that are taken together
  static constexpr int kNumStages = 16;  // chunks whose data is in flight
  static constexpr bool kSaves = false;  // a forward, for its backward
#endif
};

}  // namespace rnnc::walk_backward

namespace rnnc::walk_forward {

struct Plan {
  static constexpr int kUnits = 1;  // per thread
  static constexpr bool kWholeWarps = true;  // a warp's units are of one head
#ifdef RNNC_PLAIN
  static constexpr int kPlannedShared = 16384;  // bytes per block
#else
  static constexpr int kPlannedShared = 32896;  // bytes per block
#endif
  static constexpr int kChunk = 8;  // steps that are taken together
  static constexpr int kNumStages = 8;  // chunks whose data is in flight
#ifdef RNNC_PLAIN
  static constexpr bool kSaves = true;  // a forward, for its backward
#else
  static constexpr bool kSaves = false;  // a forward, for its backward
#endif
};

}  // namespace rnnc::walk_forward

namespace rnnc::scan {

struct Plan {
#ifdef RNNC_PLAIN
  static constexpr int kWarps = 12;
  static constexpr int kChunk = 16;  // steps per thread
#else
  static constexpr int kWarps = 16;
  static constexpr int kChunk = 8;  // steps per thread
#endif
  static constexpr int kParts = 1;  // of a warp, with other steps of the same channels
  static constexpr bool kSequential = false;  // a block takes all tiles of its channels
  static constexpr bool kWholeWarps = true;  // a warp's units are of one head
#ifdef RNNC_PLAIN
  static constexpr bool kSaves = true;  // a forward, for its backward
#else
  static constexpr bool kSaves = false;  // a forward, for its backward
#endif
};

struct Form {
  static constexpr int kCarried = 1;  // c
  static constexpr int kMaxima = 0;  // the first ones
  static constexpr int kLinear = kCarried - kMaxima;
};
__device__ constexpr int kCarriedState[] = {1};  // carried -> state

}  // namespace rnnc::scan

namespace rnnc::scan_backward {

#ifdef RNNC_PLAIN
constexpr int kPlannedShared = 193152;  // bytes per block
constexpr int kEarly = 1;  // _early_0
#else
constexpr int kPlannedShared = 147328;  // bytes per block
constexpr int kEarly = 3;  // sigmoid_o, _early_0, sigmoid_f
#endif
using Early = real[at_least_one(kEarly)];

#ifdef RNNC_PLAIN
RNNC_INLINE void step_early(real sigmoid_i, real sigmoid_f, real tanh_z, real sigmoid_o, real h,
    real c, real h_next, real c_next, real& _early_0_) {
#else
RNNC_INLINE void step_early(real i, real f, real z, real o, real h, real c, real h_next,
    real c_next, real decay_, real& sigmoid_o, real& _early_0_, real& sigmoid_f) {
  sigmoid_o = sigmoid(o);
#endif
  const real tanh_c_next = tanh(c_next);
  _early_0_ = real(1) - tanh_c_next*tanh_c_next;
#ifndef RNNC_PLAIN
  sigmoid_f = sigmoid(f);
#endif
}

#ifdef RNNC_PLAIN
RNNC_INLINE void step_late(real sigmoid_i, real sigmoid_f, real tanh_z, real sigmoid_o, real h,
    real c, real h_next, real c_next, real d_h_next, real d_c_next, real _early_0_, real& d_f,
    real& d_i, real& d_o, real& d_z, real& d_h, real& d_c) {
#else
RNNC_INLINE void step_late(real i, real f, real z, real o, real h, real c, real h_next, real c_next,
    real decay_, real d_h_next, real d_c_next, real sigmoid_o, real _early_0_, real sigmoid_f,
    real& d_f, real& d_i, real& d_o, real& d_z, real& d_h, real& d_c) {
#endif
  const real tanh_c_next = tanh(c_next);
  const real _early_1_ = real(1) - sigmoid_f;
#ifndef RNNC_PLAIN
  const real sigmoid_i = sigmoid(i);
  const real tanh_z = tanh(z);
#endif
  const real _early_2_ = real(1) - sigmoid_i;
  const real _early_3_ = real(1) - sigmoid_o;
  const real _early_4_ = real(1) - tanh_z*tanh_z;
  const real t0 = d_h_next*sigmoid_o;
  const real d_c_next_sum = d_c_next + t0*_early_0_;
#ifdef RNNC_PLAIN
  d_c = d_c_next_sum*sigmoid_f;
#else
  d_c = d_c_next_sum*sigmoid_f*decay_;
#endif
  d_f = d_c*c*_early_1_;
  const real t1 = d_c_next_sum*sigmoid_i;
  d_i = t1*tanh_z*_early_2_;
  d_o = t0*tanh_c_next*_early_3_;
  d_z = t1*_early_4_;
  d_h = real(0);
}

// What of a step does not wait for the gradients that are carried.
#ifdef RNNC_PLAIN
RNNC_INLINE void apply_early(const real (&saved)[at_least_one(Cell::kSaved)],
#else
RNNC_INLINE void apply_early(const real (&saved)[Cell::kSaved + Cell::kUnweighted],
#endif
                             const real (&before)[Cell::kStates],
                             const real (&after)[Cell::kStates], const walk::UnitValues& param,
                             Early& early) {
  step_early(
      saved[0],
      saved[1],
      saved[2],
      saved[3],
      before[0],
      before[1],
      after[0],
      after[1],
#ifdef RNNC_PLAIN
      early[0]
#else
      saved[Cell::kSaved + 0],
      early[0],
      early[1],
      early[2]
#endif
  );
}
// The rest of the step: replaces the gradients of the states after it by those before it.
#ifdef RNNC_PLAIN
RNNC_INLINE void apply_late(const real (&saved)[at_least_one(Cell::kSaved)],
#else
RNNC_INLINE void apply_late(const real (&saved)[Cell::kSaved + Cell::kUnweighted],
#endif
                            const real (&before)[Cell::kStates],
                            const real (&after)[Cell::kStates], const walk::UnitValues& param,
                            const Early& early, real (&d_states)[Cell::kStates],
                            real (&d_gates)[at_least_one(Cell::kGates)],
                            real (&d_params)[at_least_one(Cell::kParams)]) {
  real d_f, d_i, d_o, d_z, d_h, d_c;
  step_late(
      saved[0],
      saved[1],
      saved[2],
      saved[3],
      before[0],
      before[1],
      after[0],
      after[1],
#ifndef RNNC_PLAIN
      saved[Cell::kSaved + 0],
#endif
      d_states[0],
      d_states[1],
      early[0],
#ifndef RNNC_PLAIN
      early[1],
      early[2],
#endif
      d_f, d_i, d_o, d_z, d_h, d_c);
  d_gates[0] = d_i;
  d_gates[1] = d_f;
  d_gates[2] = d_z;
  d_gates[3] = d_o;
  d_states[0] = d_h;
  d_states[1] = d_c;
}

}  // namespace rnnc::scan_backward

namespace rnnc::scan_forward {

#ifdef RNNC_PLAIN
constexpr int kPlannedShared = 111744;  // bytes per block
constexpr int kEarly = 5;  // _early_0, _early_1, _early_2, _early_3, _early_4
#else
constexpr int kPlannedShared = 83840;  // bytes per block
constexpr int kEarly = 4;  // _early_0, _early_1, _early_2, a_0_0
#endif
using Early = real[at_least_one(kEarly)];

template <typename _sigmoid>
#ifdef RNNC_PLAIN
RNNC_INLINE void step_early(real i, real f, real z, real o, real& _early_0_, real& _early_1_,
    real& _early_2_, real& _early_3_, real& _early_4_, _sigmoid& sigmoid) {
#else
RNNC_INLINE void step_early(real i, real f, real z, real o, real decay_, real& _early_0_,
    real& _early_1_, real& _early_2_, real& a_0_0_, _sigmoid& sigmoid) {
#endif
  _early_0_ = sigmoid(f);
#ifdef RNNC_PLAIN
  _early_1_ = sigmoid(i);
#else
  _early_1_ = sigmoid(i)*tanh(z);
#endif
  _early_2_ = sigmoid(o);
#ifdef RNNC_PLAIN
  _early_3_ = tanh(z);
  _early_4_ = _early_1_*_early_3_;
#else
  a_0_0_ = _early_0_*decay_;
#endif
}

template <typename _sigmoid>
#ifdef RNNC_PLAIN
RNNC_INLINE void step_late(real i, real f, real z, real o, real h, real c, real _early_0_,
    real _early_1_, real _early_2_, real _early_3_, real _early_4_, real& h_next, real& c_next,
    real& sigmoid_f, real& sigmoid_i, real& sigmoid_o, real& tanh_z, _sigmoid& sigmoid) {
  sigmoid_f = _early_0_;
  sigmoid_i = _early_1_;
  sigmoid_o = _early_2_;
  tanh_z = _early_3_;
  c_next = _early_0_*c + _early_4_;
#else
RNNC_INLINE void step_late(real i, real f, real z, real o, real decay_, real h, real c,
    real _early_0_, real _early_1_, real _early_2_, real _of_matrix_a_0_0_, real& h_next,
    real& c_next, _sigmoid& sigmoid) {
  c_next = _early_0_*c*decay_ + _early_1_;
#endif
  h_next = _early_2_*tanh(c_next);
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
      gate[2],
      gate[3],
#ifndef RNNC_PLAIN
      gate[4],
#endif
      early[0],
      early[1],
      early[2],
      early[3],
#ifdef RNNC_PLAIN
      early[4],
#endif
      sigmoid);
}
// The rest of the step.
template <typename Sigmoid>
RNNC_INLINE void apply_late(const real (&gate)[at_least_one(Cell::kGates)],
                            const real (&state)[Cell::kStates], const walk::UnitValues& param,
                            const Early& early, real (&next)[Cell::kStates],
                            real (&saved)[at_least_one(Cell::kSaved)], Sigmoid& sigmoid) {
#ifdef RNNC_PLAIN
  real h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z;
#else
  real h_next, c_next;
#endif
  step_late(
      gate[0],
      gate[1],
      gate[2],
      gate[3],
#ifndef RNNC_PLAIN
      gate[4],
#endif
      state[0],
      state[1],
      early[0],
      early[1],
      early[2],
      early[3],
#ifdef RNNC_PLAIN
      early[4],
      h_next, c_next, sigmoid_f, sigmoid_i, sigmoid_o, tanh_z, sigmoid);
#else
      h_next, c_next, sigmoid);
#endif
  next[0] = h_next;
  next[1] = c_next;
#ifdef RNNC_PLAIN
  saved[0] = sigmoid_i;
  saved[1] = sigmoid_f;
  saved[2] = tanh_z;
  saved[3] = sigmoid_o;
#else
  saved[0] = gate[0];
  saved[1] = gate[1];
  saved[2] = gate[2];
  saved[3] = gate[3];
#endif
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
#ifdef RNNC_PLAIN
    found[0] = early[0]*column[j][0];
#else
    found[0] = early[3]*column[j][0];
#endif
    assign(column[j], found);
  });
}

}  // namespace rnnc::scan_forward

namespace rnnc::step::tiled_backward {

struct Tile {
  static constexpr int kColumnTiles = 2;  // of 8 columns of weights, per warp
  // Of the gradients of inputs: tiles of 16 batch rows per block and of 8 columns per warp.
  static constexpr int kRowTiles = 2, kInputColumnTiles = 4;
  static constexpr int kStages = 4;
  static constexpr int kShared = 55296;
  static constexpr bool kAligned = true;  // lines, to 16 bytes
};

}  // namespace rnnc::step::tiled_backward

namespace rnnc::step::tiled_forward {

struct Tile {
  static constexpr int kRowTiles = 2;  // of 16 batch rows, per warp
  // Warps that share the batch rows, the units and K.
  static constexpr int kRowWarps = 1, kUnitWarps = 1, kSlices = 8;
  static constexpr int kKTiles = 8;  // per stage
  static constexpr int kStages = 2;
  static constexpr int kShared = 66560;
  static constexpr bool kAligned = true;  // lines, to 16 bytes
};

}  // namespace rnnc::step::tiled_forward
