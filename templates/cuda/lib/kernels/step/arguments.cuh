// The arguments of the kernels of a single step of a layer, passed by value.
// runtime/cuda/step/launcher.py mirrors these structs.
//
// B batch rows, N heads, D units per head. All tensors are contiguous, and weights lie as the
// module stores them.
#pragma once

#include "lib/cell/arguments.cuh"

namespace rnnc::step {

struct ForwardStepArguments {
  int64 batch, heads, dim;
  int64 input;              // features of x
  const Element* x;         // [B, input]; the fused kernel alone reads x, W and R
  const Element* W;         // [kInputGates, N, D, input]
  const Element* R;         // [kDensePairs, N, D out, D in]
  const real* x_products;   // [B, kInputGates, N, D]; the kernel after the library's products reads
  const real* h_products;   // [B, kDensePairs, N, D]  these two
  const Element* R_diag;    // [kDiagonalPairs, N, D]
  const Element* bias;      // [kBiasGates, N, D]; null: none
  const Element* params[at_least_one(Cell::kParams)];  // [N, D]
  const Element* before[Cell::kStates];                // [B, N, D]
  Element* after[Cell::kStates];                       // [B, N, D]
  Element* output;  // [B, N, D]: the first state once more; null: not wanted
  Element* saved;   // [B, N, D, kSaved]; null: no backward follows
};

struct BackwardStepArguments {
  int64 batch, heads, dim;
  const Element* R_diag;                               // [kDiagonalPairs, N, D]
  const Element* params[at_least_one(Cell::kParams)];  // [N, D]
  const Element* before[Cell::kStates];                // [B, N, D]
  const Element* after[Cell::kStates];                 // [B, N, D]
  const Element* saved;                                // [B, N, D, kSaved]
  const Element* d_output;                             // [B, N, D]; null: zero
  const Element* d_after[Cell::kStates];               // [B, N, D]; null: zero
  Element* d_inputs;              // [B, kInputGates, N, D]: gradients of the gates with an input
  Element* d_pairs;               // [B, kDensePairs, N, D]: by matrix; null: they are d_inputs
  // [B, N, D], without what passes through R; null: not wanted
  real* d_before[Cell::kStates];
  real* sums;  // [B, kSums, N, D]: of biases, params and diagonal weights; null: not wanted
  // What the kernels that multiply too read and write besides; null: not wanted.
  int64 input;         // features of x
  const Element* x;    // [B, input]
  const Element* W;    // [kInputGates, N, D, input]
  const Element* R;    // [kDensePairs, N, D out, D in]
  Element* d_x;        // [B, input]
  Element* d_W;        // [kInputGates, N, D, input]
  Element* d_R;        // [kDensePairs, N, D out, D in]
  Element* d_weights;  // [kSums, N, D]: the sums over the batch, in place of `sums`
  // [B, N, D], all of the gradient; d_before holds a part of it where R multiplies the state
  Element* d_states[Cell::kStates];
};

// The item of a thread: a unit of one batch row.
struct StepItem {
  int64 plane;  // units of all heads
  int64 b, unit;
  bool valid;

  template <typename Arguments>
  RNNC_MEMBER explicit StepItem(const Arguments& a) {
    plane = a.heads * a.dim;
    const int64 index = int64{blockIdx.x} * blockDim.x + threadIdx.x;
    // In 32 bits where that is enough: a 64-bit division would take as long as all the rest.
    b = index >> 32 ? index / plane : static_cast<u32>(index) / static_cast<u32>(plane);
    unit = index - b * plane;
    valid = b < a.batch;
  }
  RNNC_MEMBER int64 row() const { return b * plane + unit; }
};

}  // namespace rnnc::step
