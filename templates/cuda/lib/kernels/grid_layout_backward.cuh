// The backward of a grid plan: how K is split, the layout of shared memory, and the items of a
// thread.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/cell/mask_backward.cuh"
#include "lib/cell/unweighted.cuh"
#include "lib/copy/reset_copy.cuh"
#include "lib/kernels/grid_layout.cuh"
#include "lib/ptx/cluster.cuh"

namespace rnnc::grid_backward {

using Sizes = GridSizes<Plan>;
using Place = GridPlace<Plan>;
// Otherwise a peer could send data of one phase while this block still reads the last one's.
static_assert(Plan::kPhases == 1 || Plan::kCluster == 1, "blocks that share K have one phase");
constexpr int kClusterUnits = Plan::kCluster * Plan::kUnits;
constexpr int kTileBytes =
    Cell::kDensePairs * Sizes::kDimKTiles * kTileKTileBytes;  // of the exchange

struct KRange : GridKRange<Plan> {
  static constexpr int kSharingWarps = kWarps * Plan::kCluster;
  RNNC_CONSTEXPR int k_tiles(int source) { return kSourcePairs[source] * kDimKTiles; }
  RNNC_CONSTEXPR int warp_k_tiles(int source) { return ceil_div(k_tiles(source), kSharingWarps); }
  RNNC_CONSTEXPR Memory memory(int source, int k_tile) {
    const int before = sum_before(source, warp_k_tiles),
              all = sum_before(Cell::kSources, warp_k_tiles);
    return memory_of(before + k_tile, all, Plan::kRegisterKTiles, Plan::kStreamedKTiles);
  }
  RNNC_CONSTEXPR int tiles(int) { return ceil_div(kClusterUnits, 16); }
};
using Product = SplitK<KRange>;

// The warps' partials of a phase: [warp][source][unit of the cluster][row], where the padding puts
// units into different banks. The partials from the blocks of the cluster: [sender][source][four
// rows][unit of this block][row], without padding, since the network between blocks is limited by
// packets.
constexpr int kRowPitch = Sizes::kPhaseRows + 4;
constexpr int kWarpPartials = Cell::kSources * round_up(kClusterUnits, 16) * kRowPitch;
constexpr int kBlockPartials = Cell::kSources * Plan::kUnits * Sizes::kPhaseRows;
constexpr int kPartialBytes = 4 * Plan::kWarps * kWarpPartials;
constexpr int kReceivedBytes = 4 * Plan::kCluster * kBlockPartials;
constexpr int kInboxBytes = Plan::kCluster > 1 ? kReceivedBytes : 0;
constexpr int kBarrierBytes = Plan::kCluster > 1 ? 16 : 0;
constexpr int kInboxOffset = 2 * kPartialBytes;
constexpr int kBarrierOffset = kInboxOffset + 2 * kInboxBytes;
constexpr int kWeightsOffset = kBarrierOffset + kBarrierBytes;
constexpr int kSharedBytes = kWeightsOffset + Product::kSharedBytes;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");
static_assert(Product::kStreamedBytes == Plan::kPlannedStreamed, "and here");

// An item, and what its thread holds for it.
struct Item : GridItem<Plan> {
  int partial_offset;  // in a warp's or a block's partials, in floats
  Params param;
  Diagonal diagonal;
  States after, d_state;
  GradientSums sum;
  Vec<Element, Cell::kSaved> saved;
  Vec<Element, 1> before[Cell::kStates], d_output[Cell::kStates];
  BackwardMasks<1, 1> masks;
  RestartsAhead restarts;
  ResetLoad reset;  // of the step of `before`
  Unweighted<1, 1> unweighted;
};
using Items = Item[Sizes::kThreadItems];

}  // namespace rnnc::grid_backward
