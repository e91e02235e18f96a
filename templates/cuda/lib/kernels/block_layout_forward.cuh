// The forward of a block plan: its layout of shared memory, and its tiles of R.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/gate_weights.cuh"

namespace rnnc::block_forward {

constexpr int kDimKTiles = ceil_div(kHeadDim, kKTile);
using StateExchange = BlockExchange<kDimKTiles * kKTile>;
constexpr int kBufferBytes = kSources * StateExchange::kBytes;
using InputCopy = RowCopy<kInputGates, 32 * kWarps, kBlockRows, kHeadDim>;
constexpr int kSharedBytes = 2 * kBufferBytes + kNumStages * InputCopy::kBytes;
static_assert(kSharedBytes == kPlannedShared, "the plan counted another size");

using Tiles = GateTiles<kUnitGroups>;
using Weights = GateWeights<Tiles, kDimKTiles, kHeadDim>;
// Two for a single tile, and for float32, where three instructions and an addition depend on each
// other.
constexpr int kNumAccumulators = Weights::kTiles == 1 || kPack == 1 ? 2 : 1;
using Product = Accumulator<kNumAccumulators>[Weights::kTiles];

}  // namespace rnnc::block_forward
