// The forward of a single step of many batch rows, products included, by matrix instructions.
//
// A block has kRows batch rows and kUnits units of a head, with all their gates. Batch rows are the
// rows of an instruction, and 8 units of a gate its columns, so weights are read as the module
// stores them. Warps share the rows, the units and, in slices, the k_tiles of each stage; the sums
// of the slices are added through shared memory.
#pragma once

#include "lib/kernels/step/factor_copies.cuh"
#include "lib/kernels/step/forward.cuh"

namespace rnnc::step::tiled_forward {

// Where a warp's products are in its block, and the lane's part of a tile.
struct WarpTile {
  int row, unit, slice;  // the first of each
  int line, word;        // of a lane

  RNNC_MEMBER WarpTile() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp % Tile::kRowWarps * Tile::kRowTiles * 16;
    unit = warp / Tile::kRowWarps % Tile::kUnitWarps * 8;
    slice = warp / (Tile::kRowWarps * Tile::kUnitWarps);
    line = lane / 4;
    word = lane % 4;
  }
};

// A lane's four words of a line of a k_tile, as the instruction takes them.
RNNC_INLINE void read_words(u32 (&words)[4], const char* line) {
  const uint4 read = *reinterpret_cast<const uint4*>(line);
  words[0] = as_factor(read.x);
  words[1] = as_factor(read.y);
  words[2] = as_factor(read.z);
  words[3] = as_factor(read.w);
}

// The sums of a warp.
struct TileSums {
  float sum[Tile::kRowTiles][at_least_one(Cell::kGates)][4];

  RNNC_MEMBER void clear() { memset(sum, 0, sizeof sum); }

  // Adds the products of a stage, which has a chunk of a factor.
  template <int factor>
  RNNC_MEMBER void add(const WarpTile& warp, const char* stage) {
#pragma unroll
    for (int step = 0; step < Tile::kKTiles / Tile::kSlices; ++step) {
      const char* lines = stage + (warp.slice + step * Tile::kSlices) * kPlaneBytes +
                          warp.line * kKTileBytes + warp.word * kPieceBytes;
      u32 low[Tile::kRowTiles][4], high[Tile::kRowTiles][4];
      repeat<Tile::kRowTiles>([&](int tile) {
        const char* rows = lines + (warp.row + 16 * tile) * kKTileBytes;
        read_words(low[tile], rows);
        read_words(high[tile], rows + 8 * kKTileBytes);
      });
      unroll<matrices_of(factor)>([&](auto index) {
        constexpr int i = decltype(index)::value, gate = gate_of(factor, i);
        u32 w[4];
        read_words(w, lines + (kRows + i * kUnits + warp.unit) * kKTileBytes);
        repeat<Tile::kRowTiles>([&](int tile) {
          repeat<2>([&](int half) {
            const int n = 2 * half;
            const u32 rows[4] = {low[tile][n], high[tile][n], low[tile][n + 1], high[tile][n + 1]};
            multiply_add(Element{}, sum[tile][gate], rows, w[n], w[n + 1]);
          });
        });
      });
    }
  }

  // Stores the sums, [slice, gate, row, unit].
  RNNC_MEMBER void store(const WarpTile& warp, float* partials) const {
    repeat<Tile::kRowTiles>([&](int tile) {
      repeat<Cell::kGates>([&](int gate) {
        const int row = warp.row + 16 * tile + warp.line;
        float* to = partials + ((warp.slice * Cell::kGates + gate) * kRows + row) * kUnits +
                    warp.unit + 2 * warp.word;
        const auto& s = sum[tile][gate];
        *reinterpret_cast<float2*>(to) = make_float2(s[0], s[1]);
        *reinterpret_cast<float2*>(to + 8 * kUnits) = make_float2(s[2], s[3]);
      });
    });
  }
};

constexpr int kItems = kRows * kUnits;
static_assert(maximum(Tile::kStages * kStageBytes,
                      Tile::kSlices * Cell::kGates * kItems * int{sizeof(float)}) == Tile::kShared,
              "the shared memory that the plan counted");

RNNC_INLINE void run(const ForwardStepArguments& a) {
  const BlockTile tile(a);
  const WarpTile warp;
  FactorCopies copies(a, tile);
  TileSums sums;
  sums.clear();
  repeat<Tile::kStages - 1>([&](int stage) { copies.next(shared + stage * kStageBytes); });
  int stage = 0;
  unroll<kFactors>([&](auto index) {
    constexpr int factor = decltype(index)::value;
    const int size = static_cast<int>(is_input(factor) ? a.input : a.dim);
#pragma unroll 1
    for (int k = 0; k < size; k += kChunk) {
      cp_async_wait<Tile::kStages - 2>();
      __syncthreads();  // the stage is there, and all warps have read the one before it
      const int last = stage ? stage - 1 : Tile::kStages - 1;
      copies.next(shared + last * kStageBytes);
      sums.template add<factor>(warp, shared + stage * kStageBytes);
      stage = stage + 1 < Tile::kStages ? stage + 1 : 0;
    }
  });
  cp_async_wait<0>();
  __syncthreads();
  float* partials = reinterpret_cast<float*>(shared);
  sums.store(warp, partials);
  __syncthreads();
#pragma unroll 1
  for (int item = threadIdx.x; item < kItems; item += kThreads) {
    const int row = item / kUnits, unit = item % kUnits;
    if (row >= tile.rows || unit >= tile.units) continue;
    Gates gate = {};
    repeat<Tile::kSlices>([&](int slice) {
      repeat<Cell::kGates>(
          [&](int g) { gate[g] += partials[(slice * Cell::kGates + g) * kItems + item]; });
    });
    const int64 place = tile.first_unit + unit;
    finish_item(a, tile.plane, place, (tile.first_row + row) * tile.plane + place, gate);
  }
}

}  // namespace rnnc::step::tiled_forward
