// The backward of a grid plan: how K is split, the layout of shared memory, and the items of a
// thread.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/kernels/split_k.cuh"
#include "lib/ptx/cluster.cuh"

namespace rnnc::grid_backward {

constexpr int kDimKTiles = ceil_div(kHeadDim, kKTile);  // per state
constexpr int kThreads = 32 * kWarps;
// Otherwise a peer could send data of one phase while this block still reads the last one's.
static_assert(kPhases == 1 || kCluster == 1, "blocks that partials K have one phase");
constexpr int kClusterUnits = kCluster * kUnits;
constexpr int kItems = kGroupRows * kUnits;
constexpr int kThreadItems = ceil_div(kItems, kThreads);  // per thread

struct KRange {
  static constexpr int kHeadDim = grid_backward::kHeadDim, kDimKTiles = grid_backward::kDimKTiles;
  static constexpr int kPhaseTiles = grid_backward::kPhaseTiles;
  static constexpr int kWarps = grid_backward::kWarps, kSharingWarps = kWarps * kCluster;
  static constexpr int kWrittenElements = kBlocks * kUnits;
  RNNC_CONSTEXPR int k_tiles(int source) { return kSourcePairs[source] * kDimKTiles; }
  RNNC_CONSTEXPR int warp_k_tiles(int source) { return ceil_div(k_tiles(source), kSharingWarps); }
  RNNC_CONSTEXPR Memory memory(int source, int k_tile) {
    int all = 0;
    for (int i = 0; i < kSources; ++i) {
      if (i < source) k_tile += warp_k_tiles(i);
      all += warp_k_tiles(i);
    }
    return memory_of(k_tile, all, kRegisterKTiles, kStreamedKTiles);
  }
  RNNC_CONSTEXPR int tiles(int) { return ceil_div(kClusterUnits, 16); }
};
using Product = SplitK<KRange>;

// The warps' partials of a phase: [warp][source][unit of the cluster][row], where the padding puts
// units into different banks. The partials from the blocks of the cluster: [sender][source][four
// rows][unit of this block][row], without padding, since the network between blocks is limited by
// packets.
constexpr int kRowPitch = kPhaseRows + 4;
constexpr int kWarpPartials = kSources * round_up(kClusterUnits, 16) * kRowPitch;
constexpr int kBlockPartials = kSources * kUnits * kPhaseRows;
constexpr int kPartialBytes = 4 * kWarps * kWarpPartials;
constexpr int kInboxBytes = kCluster > 1 ? 4 * kCluster * kBlockPartials : 0;
constexpr int kBarrierBytes = kCluster > 1 ? 16 : 0;
constexpr int kSharedBytes =
    2 * kPartialBytes + 2 * kInboxBytes + kBarrierBytes + Product::kSharedBytes;
static_assert(kSharedBytes == kPlannedShared, "the plan counted another size");
static_assert(Product::kStreamedBytes == kPlannedStreamed, "and here");

// An item, which is one unit of one batch row, and what its thread holds for it.
struct Item {
  bool valid;       // it exists; otherwise the thread computes another item's values, stores none
  bool in_bounds;   // the exchange buffer has a word for it
  int phase;        // of each step, in which it is computed
  int64 row, unit;  // in the batch; in [N, D]
  int64 offset;     // in [B, N, D], in elements
  int partial_offset;   // in a warp's partials, in floats
  int received_offset;  // in a block's partials, in floats
  int exchange_offset;  // in a tile of the exchange buffer, in bytes
  Params param;
  Diagonal diagonal;
  States after, d_state;
  GradientSums sum;
  Vec<Element, kSaved> saved;
  Vec<Element, 1> before[kStates], d_output[kStates];
};

// Adds the warps' partials and sends them to the blocks that own the units.
RNNC_INLINE void send_partials(const float* partials, u32 inbox, u32 barrier, int rank) {
  constexpr int quarters = kPhaseRows / 4, count = kSources * kClusterUnits * quarters;
#pragma unroll
  for (int i = 0; i < ceil_div(count, kThreads); ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * kThreads;
    if (count % kThreads != 0 && number >= count) break;
    const int unit = number % kClusterUnits, quarter = number / kClusterUnits % quarters;
    const int source = number / kClusterUnits / quarters;
    const int offset = source * (kWarpPartials / kSources) + unit * kRowPitch + 4 * quarter;
    float total[4] = {};
    repeat<kWarps>([&](int w) {
      const float4 own = *reinterpret_cast<const float4*>(partials + w * kWarpPartials + offset);
      total[0] += own.x;
      total[1] += own.y;
      total[2] += own.z;
      total[3] += own.w;
    });
    const int owner = unit / kUnits, unit_idx = unit % kUnits;
    const int block = (rank * kSources + source) * quarters + quarter;
    const int to = 4 * (block * kUnits + unit_idx);
    const u32 words[4] = {__float_as_uint(total[0]), __float_as_uint(total[1]),
                          __float_as_uint(total[2]), __float_as_uint(total[3])};
    st_async_v4(mapa(inbox + 4 * to, owner), words, mapa(barrier, owner));
  }
}

}  // namespace rnnc::grid_backward
