// The backward of a cluster plan: its tiles, items and layout of shared memory.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/cell/mask.cuh"
#include "lib/cell/unweighted_copy.cuh"
#include "lib/copy/warp_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/gate_major_weights.cuh"

namespace rnnc::cluster_backward {

constexpr int kTileUnits = 16;
constexpr int kBlockTiles = Plan::kUnits / kTileUnits;      // per block
constexpr int kTiles = Plan::kCluster * kBlockTiles;        // per source
constexpr int kWarpTiles = ceil_div(kTiles, Plan::kWarps);  // per warp
using K = GateMajorK<Plan::kUnits, Plan::kHeadDim>;
using GradientExchange = BlockExchange<K::all_k_tiles() * kKTile>;
// Independent accumulators hide the latency of an instruction; in float32, of three and an
// addition.
constexpr int kNumAccumulators = kPack == 1 ? 2 : kWarpTiles == 1 ? 4 : kWarpTiles < 4 ? 2 : 1;

// A warp computes 32 items (unit, column) at a time: four units of all columns.
constexpr int kItemUnits = 4;
constexpr int kItemGroups = Plan::kUnits / kItemUnits;       // groups of 32 items per block
constexpr int kItems = ceil_div(kItemGroups, Plan::kWarps);  // per thread
using SavedCopy = WarpCopy<Cell::kSaved, kItemUnits, kColumns, Plan::kHeadDim>;
using StateCopy = WarpCopy<1, kItemUnits, kColumns, Plan::kHeadDim>;

// Partials of one block for the units of another, for one source.
constexpr int kPartialBytes = Plan::kUnits * kColumns * static_cast<int>(sizeof(float));
constexpr int kPartialsBytes = Cell::kSources * Plan::kCluster * kPartialBytes;
// What a step reads: kept values, the states before it, the gradients of the states after it, and
// inputs whose rows are copied; last, what rows may have restarted from. The offsets, among them, of
// the values of a state before the step, of its gradients after it, of an input, and of what a
// state may have restarted from.
#ifdef RNNC_UNWEIGHTED
constexpr int kCopiedInputs = kUnweightedRows ? Cell::kUnweighted : 0;
#else
constexpr int kCopiedInputs = 0;
#endif
RNNC_CONSTEXPR int before_offset(int state) {
  return SavedCopy::kBytes + (states_read(state) + state) * StateCopy::kBytes;
}
RNNC_CONSTEXPR int d_after_offset(int state) {
  return before_offset(state) + kReads[state] * StateCopy::kBytes;
}
RNNC_CONSTEXPR int input_offset(int input) {
  return before_offset(Cell::kStates) + input * StateCopy::kBytes;
}
RNNC_CONSTEXPR int reset_offset(int state) {
  return input_offset(kCopiedInputs) + (kResetsAhead ? states_read(state) * StateCopy::kBytes : 0);
}
constexpr int kItemBytes = reset_offset(Cell::kStates);
constexpr int kStageBytes = kItemGroups * kItemBytes;
constexpr int kPartialsOffset = 2 * GradientExchange::kBytes;
constexpr int kReadsOffset = kPartialsOffset + 2 * kPartialsBytes;
// Inputs whose rows are copied are in the stages, among what a step reads.
struct UnweightedInStages {
  static constexpr int kBytes = 0;
  template <typename... Ignored>
  RNNC_MEMBER void start(const Ignored&...) {}
  RNNC_MEMBER void issue(const BackwardArguments&, const TimeOrder&, int) {}
  RNNC_MEMBER void receive(Unweighted<kItems, 1>& to, const BackwardArguments&, const TimeOrder&,
                           int stage) {
    to.read(shared + kReadsOffset + stage * kStageBytes + input_offset(0), StateCopy::kBytes);
  }
};
using UnweightedCopy =
    Either<kUnweightedRows, UnweightedInStages,
           rnnc::UnweightedCopy<StateCopy, 32, kItems, 1, 32 * Plan::kWarps, Plan::kNumStages>>;
constexpr int kUnweightedOffset = kReadsOffset + Plan::kNumStages * kStageBytes;
constexpr int kBarriersOffset = kUnweightedOffset + UnweightedCopy::kBytes;
constexpr int kSharedBytes = kBarriersOffset + 16;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");

using Weights =
    GateMajorWeights<K, kWarpTiles, round_up(Plan::kHeadDim* static_cast<int>(sizeof(Element)), 16),
                     32 * Plan::kWarps, kSharedBytes>;

}  // namespace rnnc::cluster_backward
