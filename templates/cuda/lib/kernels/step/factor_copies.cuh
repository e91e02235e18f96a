// Copies the factors of a step and their matrices to shared memory, several stages ahead.
//
// A stage has a chunk of K: a line per vector and per row of a matrix, cut into k_tiles.
#pragma once

#include "lib/kernels/step/factors.cuh"
#include "lib/ptx/launder.cuh"

namespace rnnc::step::tiled_forward {

// The sizes of a block that the plan gives, as the kernels use them.
constexpr int kThreads = 32 * Tile::kRowWarps * Tile::kUnitWarps * Tile::kSlices;
constexpr int kRows = 16 * Tile::kRowTiles * Tile::kRowWarps;  // batch rows
constexpr int kUnits = 8 * Tile::kUnitWarps;
constexpr int kLines = kRows + most_matrices() * kUnits;
constexpr int kPlaneBytes = (kLines + 1) * kKTileBytes;  // planes begin in other banks in turns
constexpr int kStageBytes = Tile::kKTiles * kPlaneBytes;
constexpr int kChunk = Tile::kKTiles * kKTile;  // elements of K per stage
constexpr int kPieces = kChunk / kPiece;        // of a line
static_assert(kThreads % kPieces == 0, "a thread copies one piece of some lines");
constexpr int kLinesAtOnce = kThreads / kPieces;
constexpr int kCopies = ceil_div(kLines, kLinesAtOnce);  // of a thread

// The batch rows and units of a block.
struct BlockTile {
  int64 plane, first_row, first_unit;  // the unit counts those of all heads
  int head, rows, units;               // how many of them there are

  RNNC_MEMBER explicit BlockTile(const ForwardStepArguments& a) {
    const int dim = static_cast<int>(a.dim), tiles = ceil_div(dim, kUnits);
    head = blockIdx.x / tiles;
    const int within = (blockIdx.x - head * tiles) * kUnits;
    plane = a.heads * a.dim;
    first_unit = int64{head} * dim + within;
    first_row = int64{blockIdx.y} * kRows;
    units = minimum(kUnits, dim - within);
    rows = static_cast<int>(a.batch - first_row < kRows ? a.batch - first_row : kRows);
  }
};

// Copies chunk after chunk of all factors. A thread copies one piece of some lines.
struct FactorCopies {
  const ForwardStepArguments& a;
  const BlockTile& tile;
  int factor, size;              // of K
  int k;                         // where this thread's piece of the next chunk begins
  const Element* from[kCopies];  // that piece, of each of its lines
  u32 exist;                     // a bit for each of them

  RNNC_MEMBER FactorCopies(const ForwardStepArguments& arguments, const BlockTile& block)
      : a(arguments), tile(block) {
    begin(0);
  }

  RNNC_MEMBER void begin(int which) {
    factor = which;
    k = threadIdx.x % kPieces * kPiece;
    unroll<kFactors>([&](auto index) {
      constexpr int each = decltype(index)::value;
      if (which != each) return;
      size = static_cast<int>(is_input(each) ? a.input : a.dim);
      if constexpr (Tile::kAligned) {
        exist = 0;
        // NOTE: else the compiler computes the lines of all factors ahead, and keeps them.
        const int first = launder(static_cast<int>(threadIdx.x / kPieces));
        repeat<kCopies>([&](int copy) {
          const Element* line = line_of<each>(copy * kLinesAtOnce + first);
          exist |= (line ? 1u : 0u) << copy;
          from[copy] = line + k;
        });
      }
    });
  }
  // A line; null if there is none.
  template <int which>
  RNNC_MEMBER const Element* line_of(int line) const {
    constexpr bool input = is_input(which);
    constexpr int state = input ? 0 : kSourceState[input ? 0 : source_of(which)];
    if (line < kRows) {
      if (line >= tile.rows) return nullptr;
      const Element* vectors = input ? a.x : a.before[state] + tile.head * a.dim;
      return vectors + (tile.first_row + line) * (input ? a.input : tile.plane);
    }
    const int i = (line - kRows) / kUnits, unit = line % kUnits;
    if (i >= matrices_of(which) || unit >= tile.units) return nullptr;
    return (input ? a.W : a.R) + (place_of(which, i) * tile.plane + tile.first_unit + unit) * size;
  }

  // Begins the copy of the next chunk, if there is one; one group of copies in any case.
  RNNC_MEMBER void next(char* stage) {
    if (factor < kFactors) {
      const int piece = threadIdx.x % kPieces;
      char* to = stage + piece / 4 * kPlaneBytes + threadIdx.x / kPieces * kKTileBytes +
                 piece % 4 * kPieceBytes;
      if constexpr (Tile::kAligned) {
        const u32 read = k < size ? exist : 0;
        repeat<kCopies>([&](int copy) {
          const bool last = kLines % kLinesAtOnce && copy == kCopies - 1;
          if (last && threadIdx.x / kPieces >= kLines % kLinesAtOnce) return;
          copy_piece<true>(to + copy * kLinesAtOnce * kKTileBytes, from[copy], read >> copy & 1u);
          from[copy] += kChunk;
        });
      } else {
        unroll<kFactors>([&](auto index) {
          if (factor != index) return;
#pragma unroll 1
          for (int line = threadIdx.x / kPieces; line < kLines; line += kLinesAtOnce) {
            const Element* own = line_of<decltype(index)::value>(line);
            copy_piece<false>(to, own + k, own ? size - k : 0);
            to += kLinesAtOnce * kKTileBytes;
          }
        });
      }
      k += kChunk;
      if (k - piece * kPiece >= size) begin(factor + 1);
    }
    cp_async_commit();
  }
};

}  // namespace rnnc::step::tiled_forward
