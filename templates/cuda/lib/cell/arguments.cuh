// What a launch gives a kernel, by value. Sizes and strides are run-time: one binary serves all
// batches and lengths. runtime/cuda/arguments.py mirrors these structs.
//
// B batch rows, T steps, N heads, D units a head. Inside a step the gates of a unit are neighbours,
// then units, then heads; only the distances between steps and between rows vary.
#pragma once

namespace rnnc {

RNNC_CONSTEXPR int at_least_one(int n) { return n > 0 ? n : 1; }

struct ForwardArguments {
  int64 steps, batch, heads, dim;
  int64 first_tile, first_head;            // of this launch, where one takes no more
  int64 watchdog;                          // ns that a block waits for another; 0: no end
  int64 wx_time, wx_row;                   // strides of wx, in elements
  const Element* wx;                       // [T, B, N, D, kInputGates]
  const Element* R;                        // [kDensePairs, N, D out, D in]
  const Element* R_diag;                   // [kDiagonalPairs, N, D]
  const Element* bias;                     // [kBiasGates, N, D]; null: none
  const Element* params[at_least_one(kParams)];  // [N, D]
  const Element* initial[kStates];         // [B, N, D]
  Element* states[kStates];                // [T, B, N, D]; null: not kept
  Element* last[kStates];                  // [B, N, D]
  Element* kept;                           // [T, B, N, D, kSaved]; null: no backward follows
};

// float32 sums of parts are added in double; those of two-byte elements hide what that would gain.
template <int bytes>
struct SumOf {
  using type = double;
};
template <>
struct SumOf<2> {
  using type = float;
};
using SumOverTime = typename SumOf<sizeof(Element)>::type;

struct BackwardArguments {
  int64 steps, batch, heads, dim;
  int64 first_tile, first_head;            // of this launch, where one takes no more
  int64 watchdog;                          // ns that a block waits for another; 0: no end
  int64 d_states_time[kStates], d_states_row[kStates];  // strides of d_states, in elements
  const Element* R;                        // [kDensePairs, N, D out, D in]
  const Element* R_diag;                   // [kDiagonalPairs, N, D]
  const Element* params[at_least_one(kParams)];  // [N, D]
  const Element* initial[kStates];         // [B, N, D]
  const Element* states[kStates];          // [T, B, N, D]; null: not read
  const Element* kept;                     // [T, B, N, D, kSaved]
  const Element* d_states[kStates];        // [T, B, N, D]; null: zero
  const Element* d_last[kStates];          // [B, N, D]; null: zero
  Element* d_wx;                           // [T, B, N, D, kInputGates]
  Element* d_rest;                         // [T, B, N, D, kGates - kInputGates]
  Element* d_initial[kStates];             // [B, N, D]
  SumOverTime* sums;  // [parts of the batch, kSums, N, D]: gradients of biases, params, diagonal weights
};

// Where the elements show it, a sum over time is a sum of sums of so many steps: one chain of additions
// would lose a digit at tens of thousands of steps. The last of them ends with step 0.
constexpr bool kSumsInParts = sizeof(Element) > 2;
constexpr int kPartSteps = 32;
RNNC_INLINE void leave_sum(SumOverTime* to, real sum, int64 t, int64 steps) {
  const bool first = !kSumsInParts || t + kPartSteps >= steps;
  *to = first ? SumOverTime(sum) : *to + SumOverTime(sum);
}

}  // namespace rnnc
