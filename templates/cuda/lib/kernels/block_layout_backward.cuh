// The backward of a block plan: its layout of shared memory, and a warp's part of R in registers.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/accumulator.cuh"
#include "lib/mma/gate_major_k.cuh"

namespace rnnc::block_backward {

constexpr int kWarpUnits = 16;
constexpr int kPaddedDim = round_up(kHeadDim, kWarpUnits);
using K = GateMajorK<kPaddedDim, kHeadDim>;
constexpr int kKTiles = K::all_k_tiles();
using GradientExchange = BlockExchange<kKTiles * kKTile>;
using SavedCopy = RowCopy<kSaved, 32 * kWarps, kBlockRows, kHeadDim>;
using StateCopy = RowCopy<1, 32 * kWarps, kBlockRows, kHeadDim>;
// What a step reads: saved values, the states before it, the gradients of the states after it.
constexpr int kStageBytes = SavedCopy::kBytes + 2 * kStates * StateCopy::kBytes;
constexpr int kSharedBytes = 2 * GradientExchange::kBytes + kNumStages * kStageBytes;
static_assert(kSharedBytes == kPlannedShared, "the plan counted another size");
constexpr int kNumAccumulators = kPack == 1 ? 2 : 4;

// The rows of R transposed that a warp multiplies. They come through shared memory, some k_tiles at
// a time: reading columns of R from global memory would need an address per two bytes.
struct Weights {
  static constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(Element));
  static constexpr int kStagedKTiles = minimum(kSharedBytes / (kKTile * kRowBytes), kKTiles);
  static_assert(kStagedKTiles > 0, "a k_tile of R must fit the block's shared memory");

  u32 fragment[kKTiles][2][4];
  Rounding rounding;

  RNNC_MEMBER void load(char* rows, const Element* R, int64 heads, int64 head, int first_unit,
                        int lane) {
    constexpr bool whole = kHeadDim % kWarpUnits == 0;
    const int quad = lane & 3, unit = first_unit + (lane >> 2);
    rounding.begin();
    if constexpr (kSources > 0) {
      unroll<ceil_div(kKTiles, kStagedKTiles)>([&](auto index) {
        constexpr int first = decltype(index)::value * kStagedKTiles;
        K::stage<kStagedKTiles, kRowBytes, 32 * kWarps>(rows, R, heads, head, 0, first);
#pragma unroll
        for (int k_tile = first; k_tile < minimum(first + kStagedKTiles, kKTiles); ++k_tile) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {  // word i / 2 of the quad's four, half i % 2 of the tile
            const int k = (k_tile - first) * kKTile + (quad * 4 + i / 2) * kPack;
            const bool exists = whole || unit + 8 * (i % 2) < kHeadDim;
            const int in = exists ? unit + 8 * (i % 2) : 0;
            u32 word;
            if constexpr (kPack == 1) {
              word = reinterpret_cast<const u32*>(rows)[k * kHeadDim + in];
            } else {
              const u16* halves = reinterpret_cast<const u16*>(rows) + k * kHeadDim + in;
              word = halves[0] | static_cast<u32>(halves[kHeadDim]) << 16;
            }
            fragment[k_tile][i / 4][i / 2 % 2 * 2 + i % 2] =
                prepare_weight(exists ? word : 0u, rounding);
          }
        }
        __syncthreads();
      });
    }
    rounding.settle();
  }
};

}  // namespace rnnc::block_backward
