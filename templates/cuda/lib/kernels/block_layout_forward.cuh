// The forward of a block plan: its layout of shared memory, and its tiles of R.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/gate_weights.cuh"

namespace rnnc::block_forward {

constexpr int kDimKTiles = ceil_div(Plan::kHeadDim, kKTile);
using StateExchange = BlockExchange<kDimKTiles * kKTile>;
constexpr int kBufferBytes = Cell::kSources * StateExchange::kBytes;
using InputCopy = RowCopy<Cell::kInputGates, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
constexpr int kSharedBytes = 2 * kBufferBytes + Plan::kNumStages * InputCopy::kBytes;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");

using Tiles = GateTiles<Plan::kUnitGroups>;
using Weights = GateWeights<Tiles, kDimKTiles, Plan::kHeadDim>;
// Two for a single tile, and for float32, where three instructions and an addition depend on each
// other.
constexpr int kNumAccumulators = Weights::kTiles == 1 || kPack == 1 ? 2 : 1;
using Product = Accumulator<kNumAccumulators>[Weights::kTiles];

}  // namespace rnnc::block_forward
