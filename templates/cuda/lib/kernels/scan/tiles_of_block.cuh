// Which tiles a block computes, and in what order: in turns with other blocks, or all of its channels.
#pragma once

#include "lib/kernels/scan/tile.cuh"

namespace rnnc::scan {

// How many tiles the steps of a channel have.
template <typename Arguments>
RNNC_INLINE int tiles_of(const Arguments& a) {
  const int64 in_time = (a.steps + kTileSteps - 1) / kTileSteps;
  return in_time < 1 ? 1 : static_cast<int>(in_time);
}
template <typename Arguments>
RNNC_INLINE int64 groups_of(const Arguments& a) {
  return (a.batch * a.heads * a.dim + kChannels - 1) / kChannels;
}

// body(tile, records) for each tile of the block, whose steps copy(tile) has copied by then; those of
// the next one are on their way.
template <typename Arguments, typename Copy, typename Body>
RNNC_INLINE void for_tiles(const ScanArguments<Arguments>& scan, const Copy& copy,
                           const Body& body) {
  const Arguments& a = scan.arguments;
  const int64 groups = groups_of(a);
  const int tiles = tiles_of(a);
  const auto copy_if_any = [&](int64 index, int turn) {
    if (Plan::kWholeWarps && index < groups * tiles) copy(Tile(a, index, groups, tiles, turn));
  };
  int turn = 0;
  copy_if_any(blockIdx.x, turn);
#pragma unroll 1
  for (int64 index = blockIdx.x; index < groups * tiles; index += gridDim.x) {
    if (Plan::kWholeWarps) wait_for_copies();
    const Tile tile(a, index, groups, tiles, turn);
    turn = 1 - turn;
    copy_if_any(index + gridDim.x, turn);
    // The first tile of a block waits for blocks that may not have started.
    const int waits = index == blockIdx.x ? tile.number : kNoStep;
    const Wait wait = {a.watchdog, tile.number, waits};
    body(tile, Records(scan.records, tile.group, groups, tile.lane, wait));
  }
}

// All tiles of the block's channels, in order; a block has one group of channels. `zeros` comes first,
// and `step` where the chunk of the tile runs, whose steps are loaded and prepared by then. Those of
// the next tile are on their way.
template <typename Arguments, typename Chunk, typename Zeros, typename Step>
RNNC_INLINE void for_tiles_in_order(const Arguments& a, Tile& tile, Chunk& chunk,
                                    const Zeros& zeros, const Step& step) {
  chunk.begin(a, tile.channel);
  if (Plan::kWholeWarps) Chunk::copy(a, tile);
#pragma unroll 1
  while (true) {
    if (Plan::kWholeWarps) wait_for_copies();
    if (Plan::kWholeWarps && tile.goes_on()) {
      Tile next = tile;
      next.advance();
      Chunk::copy(a, next);
    }
    zeros();
    if (tile.runs()) {
      chunk.load(a, tile);
      chunk.prepare();
      step();
    }
    if (tile.number + 1 == tile.tiles) return;
    tile.advance();
  }
}

}  // namespace rnnc::scan
