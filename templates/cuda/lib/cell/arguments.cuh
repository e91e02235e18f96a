// The arguments of kernels, passed by value. Sizes and strides are run-time values, so one binary
// serves all batch sizes and lengths. runtime/cuda/arguments.py mirrors these structs.
//
// B batch rows, T steps, N heads, D units per head. Within a step the gates of a unit are
// contiguous, then units, then heads; only the strides between steps and between rows vary.
#pragma once

#include "lib/cell/time.cuh"
#include "lib/ptx/element.cuh"

namespace rnnc {

#ifdef RNNC_WAVEFRONT
// Counters of a layer of a wavefront (lib/exchange/handover.cuh), [chunks] each.
struct HandoverArguments {
  const u32* ready;  // null: no layer before this one
  u32* done;         // null: no layer after it
  u32* started;      // counts the blocks that have started
  int64 chunk;       // steps
  int64 layer;       // its number in the module, for messages
};
#endif

// Which steps each batch row runs, and before which it restarts: lib/cell/mask.cuh.
struct MaskArguments {
  const unsigned char* restarts;           // [B / 8, T], a bit per place, the first lowest
  const int* longest;                      // [B], a row's steps; null: all rows run all
  const int* order;                        // [2, B], the row at each place, and the place of each
                                           // row; null: both are the same
  int64 reset_time[Cell::kStates],
      reset_row[Cell::kStates];            // strides of reset_to, in elements
  const Element* reset_to[Cell::kStates];  // [T, B, N, D]
};

#ifdef RNNC_UNWEIGHTED
// The inputs of the cell that no weight multiplies: lib/cell/unweighted.cuh.
struct UnweightedArguments {
  const Element* tensor[Cell::kUnweighted];  // [T, B, N, D]
  int64 time[Cell::kUnweighted], row[Cell::kUnweighted], head[Cell::kUnweighted],
      unit[Cell::kUnweighted];               // strides, in elements
};
#endif

struct ForwardArguments {
  int64 steps, batch, heads, dim;
  int64 first_tile, first_head;  // of this launch, if one launch cannot take all
  int64 watchdog;                // ns that a block waits for another; 0: no bound
  int64 wx_time, wx_row;         // strides of wx, in elements
  const Element* wx;             // [T, B, N, D, kInputGates]
  const Element* R;              // [kDensePairs, N, D out, D in]
  const Element* R_diag;         // [kDiagonalPairs, N, D]
  const Element* bias;           // [kBiasGates, N, D]; null: none
  const Element* params[at_least_one(Cell::kParams)];  // [N, D]
  const Element* initial_states[Cell::kStates];        // [B, N, D]
  Element* states[Cell::kStates];                      // [T, B, N, D]; null: not stored
  Element* last[Cell::kStates];                        // [B, N, D]
  Element* saved;  // [T, B, N, D, kSaved]; null: no backward follows
#ifdef RNNC_UNWEIGHTED
  UnweightedArguments unweighted;
#endif
#ifdef RNNC_MASKED
  MaskArguments masks;
#else
  static constexpr MaskArguments masks = {};  // nothing is passed
#endif
#ifdef RNNC_WAVEFRONT
  HandoverArguments handover;
#endif
};

// Partial sums of float32 are added in double; for two-byte elements that would make no difference.
RNNC_INLINE auto zero_sum() {
  if constexpr (sizeof(Element) > 2) return double{};
  if constexpr (sizeof(Element) == 2) return float{};
}
using SumOverTime = decltype(zero_sum());

struct BackwardArguments {
  int64 steps, batch, heads, dim;
  int64 first_tile, first_head;  // of this launch, if one launch cannot take all
  int64 watchdog;                // ns that a block waits for another; 0: no bound
  int64 d_states_time[Cell::kStates],
      d_states_row[Cell::kStates];                     // strides of d_states, in elements
  const Element* R;                                    // [kDensePairs, N, D out, D in]
  const Element* R_diag;                               // [kDiagonalPairs, N, D]
  const Element* params[at_least_one(Cell::kParams)];  // [N, D]
  const Element* initial_states[Cell::kStates];        // [B, N, D]
  const Element* states[Cell::kStates];                // [T, B, N, D]; null: not read
  const Element* saved;                                // [T, B, N, D, kSaved]
  const Element* d_states[Cell::kStates];              // [T, B, N, D]; null: zero
  const Element* d_last[Cell::kStates];                // [B, N, D]; null: zero
  Element* d_wx;                                       // [T, B, N, D, kInputGates]
  Element* d_gates_no_input;                           // [T, B, N, D, kGates - kInputGates]
  Element* d_initial_states[Cell::kStates];            // [B, N, D]
  // Gradients of biases, params and diagonal weights: [parts of the batch, kSums, N, D].
  SumOverTime* sums;
#ifdef RNNC_UNWEIGHTED
  UnweightedArguments unweighted;
#endif
#ifdef RNNC_MASKED
  MaskArguments masks;
  SumOverTime* d_reset_to[Cell::kStates];  // [B, N, D], zeros that sums are added to; null: none
#else
  static constexpr MaskArguments masks = {};
  static constexpr SumOverTime* d_reset_to[Cell::kStates] = {};
#endif
#ifdef RNNC_GATES_AGAIN
  int64 wx_time, wx_row;  // as in a forward
  const Element *wx, *bias;
#endif
#ifdef RNNC_WAVEFRONT
  HandoverArguments handover;
#endif
};

// float32 and float64 sum over time in parts of kPartSteps steps, the last of which ends with step
// 0: a single chain of additions would lose a digit over tens of thousands of steps.
constexpr bool kSumsInParts = sizeof(Element) > 2;
constexpr int kPartSteps = 32;
RNNC_INLINE void store_part_sum(SumOverTime* to, real sum, int64 t, int64 steps) {
  const bool first = !kSumsInParts || t + kPartSteps >= steps;
  *to = first ? SumOverTime(sum) : *to + SumOverTime(sum);
}

}  // namespace rnnc
