// The forward of a cluster: its layout of shared memory, and its part of R in registers.
#pragma once

#include "lib/cell/unweighted_copy.cuh"
#include "lib/copy/reset_copy.cuh"
#include "lib/copy/warp_copy.cuh"
#include "lib/exchange/cluster_exchange.cuh"
#include "lib/mma/gate_weights.cuh"

namespace rnnc::cluster_forward {

constexpr int kGroupUnits = 8;
constexpr int kGroups = Plan::kUnits / kGroupUnits;
constexpr int kWarps = kGroups * Plan::kSplits;
constexpr int kItems = Plan::kSplits == 1 ? 2 : 1;       // columns per thread
constexpr int kColumnStep = Plan::kSplits == 1 ? 1 : 2;  // from one of a warp to its next
constexpr int kItemWarps = kGroups * minimum(Plan::kSplits, 2);
constexpr int kDimKTiles = ceil_div(Plan::kHeadDim, kKTile);
constexpr int kSplitKTiles = ceil_div(kDimKTiles, Plan::kSplits);  // per warp
using StateExchange = ClusterExchange<maximum(ceil_div(Plan::kCluster* Plan::kUnits, kKTile),
                                              Plan::kSplits* kSplitKTiles)>;
constexpr int kBufferBytes = Cell::kSources * StateExchange::kBytes;
// Bytes that the cluster pushes into a buffer per step.
constexpr int kPushedBytes =
    Cell::kSources * Plan::kCluster * Plan::kUnits * kColumns * static_cast<int>(sizeof(Element));
using InputCopy = WarpCopy<Cell::kInputGates, kGroupUnits, 4 * kItems, Plan::kHeadDim>;
// What rows may restart from after a step lies behind its inputs.
using StateCopy = WarpCopy<1, kGroupUnits, 4 * kItems, Plan::kHeadDim>;
using ResetCopy = rnnc::ResetCopy<Plan, StateCopy, 32>;

using Tiles = GateTiles<1>;
using Weights = GateWeights<Tiles, kSplitKTiles, Plan::kHeadDim>;
constexpr int kTiles = Weights::kTiles;
// Independent accumulators hide the latency of an instruction; if R needs many registers, there are
// fewer.
constexpr int kNumAccumulators = kPack == 2 && (kTiles == 1 || kSplitKTiles * kTiles <= 8) ? 4 : 2;
// Partials of a warp for another warp of the same units: two halves of a tile per lane. One buffer
// is enough: a warp that writes a partial has waited for h, which its reader pushed after reading
// the partial of the last step.
constexpr int kPartialBytes = kTiles * 32 * static_cast<int>(sizeof(float2));
constexpr int kPartialsBytes =
    Plan::kSplits == 1 ? 0 : kGroups * 2 * (Plan::kSplits - 1) * kPartialBytes;
constexpr int kInputsOffset = 2 * kBufferBytes + kPartialsBytes;
constexpr int kWarpStageBytes = InputCopy::kBytes + ResetCopy::kBytes;
constexpr int kStageBytes = kItemWarps * kWarpStageBytes;
using UnweightedCopy =
    rnnc::UnweightedCopy<StateCopy, 32, 1, kItems, 32 * kItemWarps,
                         Plan::kNumStages>;
constexpr int kUnweightedOffset = kInputsOffset + Plan::kNumStages * kStageBytes;
constexpr int kBarriersOffset = kUnweightedOffset + UnweightedCopy::kBytes;
constexpr int kSharedBytes = kBarriersOffset + 16;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");

// The totals of each half of each tile, for this thread's columns: with Plan::kSplits > 1, the sum
// of the partials of the warps of the same units. `computes`: this warp takes one of the columns.
using Product = Accumulator<kNumAccumulators>[kTiles];
using Totals = float[kTiles][2][kItems];
RNNC_INLINE void add_partials(Totals& total, const Product& product, char* shared, int group,
                              int split, int lane, bool computes) {
  if constexpr (Plan::kSplits == 1) {
    repeat<4 * kTiles>(
        [&](int i) { total[i / 4][i / 2 % 2][i % kItems] = product[i / 4].total(i % 4); });
  } else {
    char* const partials =
        shared + 2 * kBufferBytes + group * 2 * (Plan::kSplits - 1) * kPartialBytes + lane * 8;
    unroll<2>([&](auto taker_index) {
      constexpr int taker = decltype(taker_index)::value;
      const int partial_idx = taker * (Plan::kSplits - 1) + split - (split > taker);
      repeat<kTiles>([&](int tile) {
        const float2 both = {product[tile].total(taker), product[tile].total(2 + taker)};
        if (split == taker) {
          total[tile][0][0] = both.x;
          total[tile][1][0] = both.y;
        } else {
          *reinterpret_cast<float2*>(partials + partial_idx * kPartialBytes + tile * 256) = both;
        }
      });
    });
    // A barrier of the warps of the same units.
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(32 * Plan::kSplits) : "memory");
    if (computes) {
      repeat<Plan::kSplits - 1>([&](int other) {
        repeat<kTiles>([&](int tile) {
          const int partial_idx = split * (Plan::kSplits - 1) + other;
          const float2 both =
              *reinterpret_cast<const float2*>(partials + partial_idx * kPartialBytes + tile * 256);
          total[tile][0][0] += both.x;
          total[tile][1][0] += both.y;
        });
      });
    }
  }
}

}  // namespace rnnc::cluster_forward
