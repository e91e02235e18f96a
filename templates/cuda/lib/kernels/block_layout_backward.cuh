// The backward of a block plan: its layout of shared memory, and its tiles of R transposed.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/gate_major_weights.cuh"

namespace rnnc::block_backward {

constexpr int kWarpUnits = 16;
constexpr int kPaddedDim = round_up(Plan::kHeadDim, kWarpUnits);
using K = GateMajorK<kPaddedDim, Plan::kHeadDim>;
using GradientExchange = BlockExchange<K::all_k_tiles() * kKTile>;
using SavedCopy = RowCopy<Cell::kSaved, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
using StateCopy = RowCopy<1, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
// What a step reads: saved values, then for each state its values before the step and its gradients
// after it.
constexpr int kStageBytes = SavedCopy::kBytes + 2 * Cell::kStates * StateCopy::kBytes;
RNNC_CONSTEXPR int before_offset(int state) {
  return SavedCopy::kBytes + 2 * state * StateCopy::kBytes;
}
constexpr int kSharedBytes = 2 * GradientExchange::kBytes + Plan::kNumStages * kStageBytes;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");

constexpr int kNumAccumulators = kPack == 1 ? 2 : 4;
using Product = Accumulator<kNumAccumulators>[1][at_least_one(Cell::kSources)];
using Weights = GateMajorWeights<K, 1, Plan::kHeadDim* static_cast<int>(sizeof(Element)),
                                 32 * Plan::kWarps, kSharedBytes>;

}  // namespace rnnc::block_backward
