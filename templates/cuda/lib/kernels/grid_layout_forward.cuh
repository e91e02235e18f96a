// The forward of a grid plan: how K is split, the layout of shared memory, and the items of a
// thread.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/kernels/split_k.cuh"
#include "lib/mma/gate_tiles.cuh"

namespace rnnc::grid_forward {

constexpr int kDimKTiles = ceil_div(kHeadDim, kKTile);  // per state
constexpr int kThreads = 32 * kWarps;
constexpr int kItems = kGroupRows * kUnits;
constexpr int kThreadItems = ceil_div(kItems, kThreads);  // per thread

using Tiles = GateTiles<kUnits / 8>;

struct KRange {
  static constexpr int kHeadDim = grid_forward::kHeadDim, kDimKTiles = grid_forward::kDimKTiles;
  static constexpr int kPhaseTiles = grid_forward::kPhaseTiles;
  static constexpr int kWarps = grid_forward::kWarps, kSharingWarps = kWarps;
  static constexpr int kWrittenElements = kBlocks * kUnits;
  RNNC_CONSTEXPR int k_tiles(int) { return kDimKTiles; }
  RNNC_CONSTEXPR int warp_k_tiles(int) { return ceil_div(kDimKTiles, kWarps); }
  RNNC_CONSTEXPR Memory memory(int source, int k_tile) {
    return memory_of(k_tile, warp_k_tiles(source), kRegisterKTiles, kStreamedKTiles);
  }
  RNNC_CONSTEXPR int tiles(int source) { return Tiles::tiles(source); }
};
using Product = SplitK<KRange>;

// The warps' partials of a phase: [warp][row][unit][pair]. The padding puts rows into different
// banks.
constexpr int kPartialWidth = kDensePairs <= 2 ? kDensePairs : round_up(kDensePairs, 4);
constexpr int kPartialPitch = (kUnits + 1) * kPartialWidth;
constexpr int kWarpPartials = kPhaseRows * kPartialPitch;
constexpr int kPartialBytes = kWarps * kWarpPartials * 4;
constexpr int kSharedBytes = 2 * kPartialBytes + Product::kSharedBytes;
static_assert(kSharedBytes == kPlannedShared, "the plan counted another size");
static_assert(Product::kStreamedBytes == kPlannedStreamed, "and here");

RNNC_INLINE void store_partials(float* to, const float (&partials)[kPartialWidth]) {
  if constexpr (kPartialWidth % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kPartialWidth; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(partials[i], partials[i + 1], partials[i + 2], partials[i + 3]);
    }
  } else if constexpr (kPartialWidth == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(partials[0], partials[1]);
  } else {
    *to = partials[0];
  }
}
RNNC_INLINE void add_partials(float (&partials)[kPartialWidth], const float* from) {
  if constexpr (kPartialWidth % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kPartialWidth; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      partials[i] += four.x;
      partials[i + 1] += four.y;
      partials[i + 2] += four.z;
      partials[i + 3] += four.w;
    }
  } else if constexpr (kPartialWidth == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    partials[0] += two.x;
    partials[1] += two.y;
  } else {
    partials[0] += *from;
  }
}

// An item, which is one unit of one batch row, and what its thread holds for it.
struct Item {
  bool valid;      // it exists; otherwise the thread computes another item's values, stores none
  bool in_bounds;  // the exchange buffer has a word for it
  int phase;       // of each step, in which it is computed
  int64 offset;    // in [B, N, D], in elements
  int64 input_offset;   // in a step of wx, in elements
  int partial_offset;   // in a warp's partials, in floats
  int exchange_offset;  // in a tile of the exchange buffer, in bytes
  Gates bias;
  Params param;
  Diagonal diagonal;
  States state;
  Saved saved;
  Vec<Element, kInputGates> input;
};

}  // namespace rnnc::grid_forward
