// The backward of a cluster: its layout of shared memory, and its part of R transposed in
// registers.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/copy/warp_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/accumulator.cuh"
#include "lib/mma/gate_major_k.cuh"

namespace rnnc::cluster_backward {

constexpr int kTileUnits = 16;
constexpr int kBlockTiles = kUnits / kTileUnits;      // per block
constexpr int kTiles = kCluster * kBlockTiles;        // per source
constexpr int kWarpTiles = ceil_div(kTiles, kWarps);  // per warp
using K = GateMajorK<kUnits, kHeadDim>;
constexpr int kKTiles = K::all_k_tiles();
using GradientExchange = BlockExchange<kKTiles * kKTile>;
// Independent accumulators hide the latency of an instruction; in float32, of three and an
// addition.
constexpr int kNumAccumulators = kPack == 1 ? 2 : kWarpTiles == 1 ? 4 : kWarpTiles < 4 ? 2 : 1;

// A warp computes 32 items (unit, column) at a time: four units of all columns.
constexpr int kItemUnits = 4;
constexpr int kItemGroups = kUnits / kItemUnits;       // groups of 32 items per block
constexpr int kItems = ceil_div(kItemGroups, kWarps);  // per thread
using SavedCopy = WarpCopy<kSaved, kItemUnits, kColumns, kHeadDim>;
using StateCopy = WarpCopy<1, kItemUnits, kColumns, kHeadDim>;

// Partials of one block for the units of another, for one source.
constexpr int kPartialBytes = kUnits * kColumns * static_cast<int>(sizeof(float));
constexpr int kPartialsBytes = kSources * kCluster * kPartialBytes;
// What a step reads: kept values, the states before it, the gradients of the states after it.
RNNC_CONSTEXPR int read_states_before(int states) {
  int count = 0;
  for (int s = 0; s < states; ++s) count += kReads[s];
  return count;
}
constexpr int kItemBytes =
    SavedCopy::kBytes + (read_states_before(kStates) + kStates) * StateCopy::kBytes;
// The offsets, among them, of the values of a state before the step and of its gradients after it.
RNNC_CONSTEXPR int before_offset(int state) {
  return SavedCopy::kBytes + (read_states_before(state) + state) * StateCopy::kBytes;
}
RNNC_CONSTEXPR int d_after_offset(int state) {
  return before_offset(state) + kReads[state] * StateCopy::kBytes;
}
constexpr int kStageBytes = kItemGroups * kItemBytes;
constexpr int kPartialsOffset = 2 * GradientExchange::kBytes;
constexpr int kReadsOffset = kPartialsOffset + 2 * kPartialsBytes;
constexpr int kBarriersOffset = kReadsOffset + kNumStages * kStageBytes;
constexpr int kSharedBytes = kBarriersOffset + 16;
static_assert(kSharedBytes == kPlannedShared, "the plan counted another size");

// The rows of R transposed that a warp multiplies, as fragments. They come through shared memory,
// some k_tiles at a time: reading columns of R from global memory would need an address per two
// bytes. Rows lane / 4 and lane / 4 + 8 of a tile are neighbouring units, which are neighbours in a
// row of R too.
struct Weights {
  static constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(Element));
  static constexpr int kPitch = round_up(kRowBytes, 16);
  // Without dense pairs there is nothing to stage, and little shared memory.
  static constexpr int kStagedKTiles =
      kSources == 0 ? 1 : minimum(kSharedBytes / (kKTile * kPitch), kKTiles);
  static_assert(kStagedKTiles > 0, "a k_tile of R must fit the block's shared memory");

  u32 fragment[kKTiles][2][kWarpTiles][4];
  Rounding rounding;

  RNNC_MEMBER void load(char* rows, const Element* R, int64 heads, int64 head, int first_unit,
                        const int (&tile)[kWarpTiles], int lane) {
    rounding.begin();
    if constexpr (kSources > 0) {
      unroll<ceil_div(kKTiles, kStagedKTiles)>([&](auto index) {
        constexpr int first = decltype(index)::value * kStagedKTiles;
        K::stage<kStagedKTiles, kPitch, 32 * kWarps>(rows, R, heads, head, first_unit, first);
#pragma unroll
        for (int k_tile = first; k_tile < minimum(first + kStagedKTiles, kKTiles); ++k_tile) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {  // word i / 2 of the quad's four, half i % 2 of the tile
            const int k = (k_tile - first) * kKTile + ((lane & 3) * 4 + i / 2) * kPack;
#pragma unroll
            for (int warp_tile = 0; warp_tile < kWarpTiles; ++warp_tile) {
              const int in = tile[warp_tile] * kTileUnits + 2 * (lane >> 2) + i % 2;
              const char* from = rows + k * kPitch + in * static_cast<int>(sizeof(Element));
              u32 word = 0;
              if (in < kHeadDim) {
                if constexpr (kPack == 1) {
                  word = prepare_weight(*reinterpret_cast<const u32*>(from), rounding);
                } else {
                  word = *reinterpret_cast<const u16*>(from) |
                         static_cast<u32>(*reinterpret_cast<const u16*>(from + kPitch)) << 16;
                }
              }
              fragment[k_tile][i / 4][warp_tile][i / 2 % 2 * 2 + i % 2] = word;
            }
          }
        }
        __syncthreads();
      });
    }
    rounding.settle();
  }
};

// The sum of what n blocks pushed for an item: a tree of additions in a fixed order.
template <int n>
RNNC_INLINE float sum_partials(const char* partials) {
  if constexpr (n == 1) {
    return *reinterpret_cast<const float*>(partials);
  } else {
    return sum_partials<n / 2>(partials) +
           sum_partials<n - n / 2>(partials + n / 2 * kPartialBytes);
  }
}

// The results of the backward pointwise map for one item.
struct Gradients {
  real gate[at_least_one(kGates)], state[kStates], param[at_least_one(kParams)];
};

// Adds to linear results their derivative `one` with respect to the gradient of a state, times what
// the peers sent for that state.
RNNC_INLINE void add_received(Gradients& found, const Gradients& one, real received, int state) {
#pragma unroll
  for (int g = 0; g < kGates; ++g) {
    if (kReachesGate[state][g]) found.gate[g] += one.gate[g] * received;
  }
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    if (kReachesState[state][s]) found.state[s] += one.state[s] * received;
  }
#pragma unroll
  for (int p = 0; p < kParams; ++p) {
    if (kReachesParam[state][p]) found.param[p] += one.param[p] * received;
  }
}

}  // namespace rnnc::cluster_backward
