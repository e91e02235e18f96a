// What both directions of a grid plan share: sizes, the exchange buffer, and the items of a thread.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/kernels/split_k.cuh"

namespace rnnc {

// Steps between the prefetch of a line to L2 and its first use. The tensors of many steps do not
// fit in L2, and device memory answers later than a step takes.
constexpr int kL2Steps = 2;

// Sizes that follow from a plan.
template <class Plan>
struct GridSizes {
  static constexpr int kDimKTiles = ceil_div(Plan::kHeadDim, kKTile);  // per state
  static constexpr int kGroupRows = kTileRows * Plan::kRowTiles;  // batch rows per group of blocks
  static constexpr int kPhaseTiles = Plan::kRowTiles / Plan::kPhases;
  static constexpr int kPhaseRows = kTileRows * kPhaseTiles;
  static constexpr int kThreads = 32 * Plan::kWarps;
  static constexpr int kItems = kGroupRows * Plan::kUnits;
  static constexpr int kThreadItems = ceil_div(kItems, kThreads);  // per thread
};

// What the products of both directions say to SplitK.
template <class Plan>
struct GridKRange {
  static constexpr int kHeadDim = Plan::kHeadDim, kDimKTiles = GridSizes<Plan>::kDimKTiles;
  static constexpr int kPhaseTiles = GridSizes<Plan>::kPhaseTiles, kWarps = Plan::kWarps;
  static constexpr int kWrittenElements = Plan::kBlocks * Plan::kUnits;
};

// A block's place: its head, its group of batch rows, and the strides of tensors, in elements.
template <class Plan>
struct GridPlace {
  int64 head, group, plane, step_size;
  int first_unit;
  TileSteps tile;

  template <typename Arguments>
  RNNC_MEMBER explicit GridPlace(const GridArguments<Arguments>& grid) {
    head = blockIdx.z;
    group = grid.first_group + blockIdx.y;
    first_unit = static_cast<int>(blockIdx.x) * Plan::kUnits;
    plane = grid.arguments.heads * Plan::kHeadDim;
    step_size = grid.arguments.batch * plane;
    constexpr int rows = GridSizes<Plan>::kGroupRows;
    tile = TileSteps(grid.arguments, group * rows, rows);
  }
  template <typename Arguments>
  RNNC_MEMBER TimeOrder time(const Arguments& a) const {
    return TimeOrder(tile.of(a), Order(head, a.heads));
  }
};

// A group's part of the exchange buffer: a region per step has all groups of this launch, whose
// tiles are contiguous.
struct GridRegion {
  char* step;
  int64 bytes;  // to the next step's

  template <class Plan, typename Arguments>
  RNNC_MEMBER GridRegion(const GridArguments<Arguments>& grid, const GridPlace<Plan>& place,
                         int tile_bytes) {
    const int64 tiles = static_cast<int64>(gridDim.y) * Plan::kRowTiles;
    bytes = grid.arguments.heads * tiles * tile_bytes;
    step = grid.exchange + (place.head * tiles + blockIdx.y * Plan::kRowTiles) * tile_bytes;
  }
};

// An item, which is one unit of one batch row, and where its thread finds what belongs to it.
template <class Plan>
struct GridItem {
  bool valid;      // it exists; otherwise the thread computes another item's values, stores none
  bool in_bounds;  // the exchange buffer has a word for it
  int phase;       // of each step, in which it is computed
  int phase_row, unit_idx;  // in the phase; in the block
  int64 row, unit;          // in the batch; in [N, D]
  int64 row_place;          // of the row, among those of all groups
  int64 offset;             // in [B, N, D], in elements
  int exchange_offset;      // in a tile of the exchange buffer, in bytes

  // The item of that number among those of the block.
  template <typename Arguments>
  RNNC_MEMBER void find(int number, const GridPlace<Plan>& place, const Arguments& a,
                        int tile_bytes) {
    using Sizes = GridSizes<Plan>;
    const int group_row = number / Plan::kUnits % Sizes::kGroupRows;
    unit_idx = number % Plan::kUnits;
    phase_row = group_row % Sizes::kPhaseRows;
    const int block_unit = place.first_unit + unit_idx;
    const int64 group_place = place.group * Sizes::kGroupRows + group_row;
    const bool exists = number < Sizes::kItems;
    valid = block_unit < Plan::kHeadDim && group_place < a.batch && exists;
    phase = exists ? group_row / Sizes::kPhaseRows : Plan::kPhases;
    in_bounds = block_unit < Sizes::kDimKTiles * kKTile && exists;
    unit = place.head * Plan::kHeadDim + (valid ? block_unit : 0);
    row_place = valid ? group_place : 0;
    row = row_at(a, row_place);
    offset = row * place.plane + unit;
    exchange_offset =
        group_row / kTileRows * tile_bytes + word_offset(group_row % kTileRows, block_unit);
  }
};

// Publishes n values of an item in a step's region, value i in the i-th group of kDimKTiles
// k_tiles. Also prefetches to L2 the lines of the region that lies `ahead` bytes further on; 0: of
// none. All lanes of a warp must call this.
template <class Plan, int n>
RNNC_INLINE void publish_item(const GridItem<Plan>& it, const real (&values)[n], char* to,
                              int64 ahead) {
  const auto address = [&](int i) {
    return to + it.exchange_offset + i * GridSizes<Plan>::kDimKTiles * kTileKTileBytes;
  };
  publish_values(values, threadIdx.x & 1, it.in_bounds, address);
  if (ahead && it.in_bounds) repeat<n>([&](int i) { prefetch_l2(address(i) + ahead); });
}

// Calls body(item) for the thread's items of a phase. All lanes of a warp have items of a phase, or
// none has: publishing shuffles among all lanes.
template <typename Item, int n, typename Body>
RNNC_INLINE void for_items(Item (&items)[n], int phase, const Body& body) {
  repeat<n>([&](int i) {
    if (items[i].phase == phase) body(items[i]);
  });
}

}  // namespace rnnc
