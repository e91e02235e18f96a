// What the kernels of an alternating plan have in common: its buffers and the layout of the
// factors.
//
// Steps are captured in graphs, whose nodes cannot change. So the arguments of a call and the index
// of its first step lie in device memory: the init kernel writes them, and `advance` counts the
// steps. The states stay in `real` from step to step.
#pragma once

#include "lib/cell/arguments.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc::alternating {

// Buffers that live as long as the graphs. B batch rows, N heads, D units per head.
struct Workspace {
  u32 batch, heads, dim;
  void* arguments;                                 // ForwardArguments or BackwardArguments
  int* first_step;                                 // of the current part of the steps
  real* states[Cell::kStates];                     // [B, N, D]: the states, or their gradients
  Element* factors[at_least_one(Cell::kSources)];  // what R multiplies: see factor_offset
  union {
    real* products[at_least_one(
        Cell::kSources)];  // [N, B, D, pairs], or [N, pairs, B, D] of gradients
    const Element* weights[at_least_one(Cell::kSources)];  // R as fragments, if kFused
  };
  real* sums;           // [kSums, B, N, D]: over the steps of a part
  SumOverTime* totals;  // [kSums, B, N, D]: over all earlier parts

  RNNC_MEMBER int64 size() const { return static_cast<int64>(batch) * heads * dim; }
};

template <typename Arguments>
struct InitArgs {
  Arguments arguments;
  Workspace workspace;
};

struct StepArgs {
  Workspace workspace;
  int64 step_idx;  // within the current part of the steps
};

// The item of a thread: unit d of head n in batch row b.
struct ItemIndex {
  u32 n, d, b;
  u32 unit;    // in [N, D]
  u32 row;     // in [B, N, D]
  bool valid;  // the item exists

  // In 32 bits: 64-bit divisions would take as long as the rest of a step.
  RNNC_MEMBER explicit ItemIndex(const Workspace& workspace) {
    const u32 plane = workspace.heads * workspace.dim;
    row = blockIdx.x * blockDim.x + threadIdx.x;
    b = row / plane;
    unit = row - b * plane;
    n = unit / workspace.dim;
    d = unit - n * workspace.dim;
    valid = b < workspace.batch;
  }
  RNNC_MEMBER ItemIndex(const Workspace& workspace, u32 head, u32 head_unit, u32 batch_row,
                        bool exists) {
    n = head;
    d = head_unit;
    b = batch_row;
    unit = n * workspace.dim + d;
    row = b * workspace.heads * workspace.dim + unit;
    valid = exists && d < workspace.dim && b < workspace.batch;
  }
};

// K of a row of factors: if kFused, it is padded with zeros to whole k_tiles.
constexpr u32 kFactorKTile = Plan::kFused ? 32 : 1;
constexpr u32 kTileRows = 16;  // batch rows of an instruction
RNNC_INLINE u32 factor_pitch(u32 dim) {
  return (dim + kFactorKTile - 1) / kFactorKTile * kFactorKTile;
}
RNNC_INLINE u32 row_tiles(u32 batch) {
  constexpr u32 rows = kTileRows * Plan::kRowTiles;  // per block
  return (batch + rows - 1) / rows * Plan::kRowTiles;
}

// If kFused, factors are [2, N, tiles of 16 rows, pairs, pitch / 32 k_tiles, 512]. Steps alternate
// between the two buffers, since blocks read what the last step wrote while others write. A k_tile
// of a tile holds the fragments of two instructions: [2, 32 lanes, 2 words, 2 rows, 2 of K], where
// lane 4 r + q has rows r and r + 8 and the words 4 q .. 4 q + 3, two per instruction.
RNNC_INLINE int64 factor_tile(const Workspace& workspace, u32 head, u32 tile, int64 step,
                              int pairs) {
  const int64 head_idx = (step & 1) * workspace.heads + head;
  return (head_idx * row_tiles(workspace.batch) + tile) * pairs * kTileRows *
         factor_pitch(workspace.dim);
}
RNNC_INLINE u32 offset_in_k_tile(u32 row, u32 k) {
  const u32 word = k / 2, lane = row % 8 * 4 + word / 4;
  return (word % 4 / 2 * 32 + lane) * 8 + word % 2 * 4 + row / 8 * 2 + k % 2;
}

// The offset of an item's factor for a step's product: a state, of which there is one, or the
// gradients of the gates of `pairs` pairs. The products of the matrix library take [N, pairs, B,
// D].
RNNC_INLINE int64 factor_offset(const Workspace& workspace, const ItemIndex& item, int64 step,
                                int pairs, int pair) {
  if constexpr (Plan::kFused) {
    const u32 k = pair * factor_pitch(workspace.dim) + item.d;
    return factor_tile(workspace, item.n, item.b / kTileRows, step, pairs) +
           k / kFactorKTile * (kTileRows * kFactorKTile) +
           offset_in_k_tile(item.b % kTileRows, item.d % kFactorKTile);
  } else {
    const int64 column = (int64{item.n} * pairs + pair) * workspace.batch + item.b;
    return column * workspace.dim + item.d;
  }
}

// By the init kernel: writes the arguments, and that the first part begins with step 0.
template <typename Arguments>
RNNC_INLINE void begin(const Arguments& a, const Workspace& workspace) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *static_cast<Arguments*>(workspace.arguments) = a;
    *workspace.first_step = 0;
  }
}
// Advances the first step to the next part of the steps.
RNNC_INLINE void advance(const Workspace& workspace, int64 steps) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *workspace.first_step += static_cast<int>(steps);
}

}  // namespace rnnc::alternating
