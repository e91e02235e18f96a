// The forward of a block plan: its layout of shared memory, and a warp's part of R in registers.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/accumulator.cuh"
#include "lib/mma/gate_tiles.cuh"
#include "lib/mma/weights.cuh"

namespace rnnc::block_forward {

constexpr int kDimKTiles = ceil_div(kHeadDim, kKTile);
using StateExchange = BlockExchange<kDimKTiles * kKTile>;
constexpr int kBufferBytes = kSources * StateExchange::kBytes;
using InputCopy = RowCopy<kInputGates, 32 * kWarps, kBlockRows, kHeadDim>;
constexpr int kSharedBytes = 2 * kBufferBytes + kNumStages * InputCopy::kBytes;
static_assert(kSharedBytes == kPlannedShared, "the plan counted another size");

using Tiles = GateTiles<kUnitGroups>;
constexpr int kTiles = at_least_one(Tiles::first_tile(kSources));
// Two for a single tile, and for float32, where three instructions and an addition depend on each
// other.
constexpr int kNumAccumulators = kTiles == 1 || kPack == 1 ? 2 : 1;

// The part of R that a warp multiplies, as fragments.
struct Weights {
  u32 fragment[kDimKTiles][2][kTiles][4];
  Rounding rounding;

  RNNC_MEMBER void load(const Element* R, int64 heads, int64 head, int first_unit, int lane) {
    const int quad = lane & 3, row = lane >> 2;
    rounding.begin();
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      unroll<Tiles::tiles(source)>([&](auto tile_index) {
        constexpr int tile = decltype(tile_index)::value;
#pragma unroll
        for (int k_tile = 0; k_tile < kDimKTiles; ++k_tile) {
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            const Element* matrix_of[4];
            int from[4], k[4];
            bool valid[4];
#pragma unroll
            for (int i = 0; i < 4;
                 ++i) {  // word i / 2 of the mma step's two, half i % 2 of the tile
              const int half = 2 * tile + i % 2, group = half / kSourcePairs[source];
              const int unit = first_unit + 8 * group + row;
              k[i] = k_tile * kKTile + (quad * 4 + 2 * step + i / 2) * kPack;
              valid[i] = half < Tiles::halves(source) && unit < kHeadDim;
              const int pair = kSourceFirstPair[source] + half % kSourcePairs[source];
              const int matrix = valid[i] ? kPairMatrix[pair] : 0;
              matrix_of[i] = R + (matrix * heads + head) * (kHeadDim * kHeadDim);
              from[i] = unit * kHeadDim;
            }
            load_weights<kHeadDim>(fragment[k_tile][step][Tiles::first_tile(source) + tile],
                                   matrix_of, from, k, valid, rounding);
          }
          limit_loads_in_flight();
        }
      });
    });
    rounding.settle();
  }
};

}  // namespace rnnc::block_forward
