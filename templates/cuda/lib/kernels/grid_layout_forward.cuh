// The forward of a grid plan: how K is split, the layout of shared memory, and the items of a
// thread.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/cell/mask_forward.cuh"
#include "lib/cell/unweighted.cuh"
#include "lib/copy/reset_copy.cuh"
#include "lib/kernels/grid_layout.cuh"
#include "lib/mma/gate_tiles.cuh"

namespace rnnc::grid_forward {

using Sizes = GridSizes<Plan>;
using Place = GridPlace<Plan>;
using Tiles = GateTiles<Plan::kUnits / 8>;
constexpr int kTileBytes = Cell::kSources * Sizes::kDimKTiles * kTileKTileBytes;  // of the exchange

struct KRange : GridKRange<Plan> {
  static constexpr int kSharingWarps = kWarps;
  RNNC_CONSTEXPR int k_tiles(int) { return kDimKTiles; }
  RNNC_CONSTEXPR int warp_k_tiles(int) { return ceil_div(kDimKTiles, kWarps); }
  RNNC_CONSTEXPR Memory memory(int source, int k_tile) {
    return memory_of(k_tile, warp_k_tiles(source), Plan::kRegisterKTiles, Plan::kStreamedKTiles);
  }
  RNNC_CONSTEXPR int tiles(int source) { return Tiles::tiles(source); }
};
using Product = SplitK<KRange>;

// The warps' partials of a phase: [warp][row][unit][pair]. The padding puts rows into different
// banks.
constexpr int kPartialWidth =
    Cell::kDensePairs <= 2 ? Cell::kDensePairs : round_up(Cell::kDensePairs, 4);
constexpr int kPartialPitch = (Plan::kUnits + 1) * kPartialWidth;
constexpr int kWarpPartials = Sizes::kPhaseRows * kPartialPitch;
constexpr int kPartialBytes = Plan::kWarps * kWarpPartials * 4;
constexpr int kSharedBytes = 2 * kPartialBytes + Product::kSharedBytes;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");
static_assert(Product::kStreamedBytes == Plan::kPlannedStreamed, "and here");

// The partials of a unit, one per pair, are stored and loaded with the widest accesses.
using PartialAccess = Vec<float, kPartialWidth>;

// An item, and what its thread holds for it.
struct Item : GridItem<Plan> {
  int64 input_offset;  // in a step of wx, in elements
  int partial_offset;  // in a warp's partials, in floats
  Gates bias;
  Params param;
  Diagonal diagonal;
  States state;
  Saved saved;
  Vec<Element, Cell::kInputGates> input;
  ForwardMasks<1, 1> masks;
  RestartsAhead restarts;
  ResetLoad reset;  // of the step after the one of `input`
  Unweighted<1, 1> unweighted;
};
using Items = Item[Sizes::kThreadItems];

}  // namespace rnnc::grid_forward
