// Copies the factors of a step and their matrices to shared memory, several stages ahead.
//
// A stage has a chunk of K: a line per vector and per row of a matrix, cut into k_tiles.
#pragma once

#include "lib/kernels/step/factors.cuh"

namespace rnnc::step {

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
static_assert(kRows % kLinesAtOnce == 0, "a copy has vectors or weights");
static_assert(kLinesAtOnce % kUnits == 0 || kUnits % kLinesAtOnce == 0, "and whole matrices");

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

// Copies chunk after chunk of all factors.
struct FactorCopies {
  const ForwardStepArguments& a;
  const BlockTile& tile;
  int factor, size, k;     // the next chunk begins with element k of `size`
  bool aligned;            // whether all lines begin at multiples of kPieceBytes
  int line;                // of this thread's first copy
  const Element* vectors;  // that line, if it exists
  const Element* weights;  // of this thread's unit in the first matrix
  int64 pitch, apart;      // elements between vectors and between matrices

  RNNC_MEMBER FactorCopies(const ForwardStepArguments& arguments, const BlockTile& block)
      : a(arguments), tile(block), line(threadIdx.x / kPieces) {
    begin(0);
  }

  RNNC_MEMBER void begin(int which) {
    factor = which;
    k = 0;
    unroll<kFactors>([&](auto index) {
      if (which == index) set<decltype(index)::value>();
    });
  }
  template <int which>
  RNNC_MEMBER void set() {
    constexpr bool input = is_input(which);
    constexpr int state = input ? 0 : kSourceState[input ? 0 : source_of(which)];
    size = static_cast<int>(input ? a.input : a.dim);
    pitch = input ? a.input : tile.plane;
    vectors = input ? a.x : a.before[state] + tile.head * a.dim;
    weights = input ? a.W : a.R;
    aligned = in_pieces(vectors, pitch, size) && in_pieces(weights, size, size);
    vectors += (tile.first_row + line) * pitch;
    weights += (tile.first_unit + line % kUnits) * size;
    apart = tile.plane * size;
  }

  // The row of a matrix that a thread copies, if it exists: number n of its lines of weights.
  template <int which>
  RNNC_MEMBER const Element* weights_of(int n) const {
    // Its unit is the same in all copies if a copy has whole matrices, and else its matrix is.
    constexpr int whole = kLinesAtOnce / kUnits, parts = kUnits / kLinesAtOnce;
    if constexpr (parts > 1) {
      const int i = n / parts, first = n % parts * kLinesAtOnce;
      if (i >= matrices_of(which) || first + line >= tile.units) return nullptr;
      return weights + place_of(which, i) * apart + int64{first} * size;
    } else {
      const Element* found = nullptr;
      repeat<whole>([&](int part) {
        const int i = n * whole + part;
        if (i >= matrices_of(which) || line / kUnits != part || line % kUnits >= tile.units) return;
        found = weights + place_of(which, i) * apart;
      });
      return found;
    }
  }

  // Begins the copy of the next chunk, if there is one; one group of copies in any case.
  RNNC_MEMBER void next(char* stage) {
    const int piece = threadIdx.x % kPieces, first = k + piece * kPiece;
    char* to = stage + piece / 4 * kPlaneBytes + line * kKTileBytes + piece % 4 * kPieceBytes;
    if (factor < kFactors) {
      repeat<kRows / kLinesAtOnce>([&](int n) {
        const bool valid = line + n * kLinesAtOnce < tile.rows;
        copy_piece(to + n * kLinesAtOnce * kKTileBytes,
                   valid ? vectors + n * kLinesAtOnce * pitch : nullptr, first, size, aligned);
      });
    }
    unroll<kFactors>([&](auto index) {
      constexpr int which = decltype(index)::value, lines = matrices_of(which) * kUnits;
      if (factor != which) return;
      repeat<ceil_div(lines, kLinesAtOnce)>([&](int n) {
        if (n * kLinesAtOnce + line >= lines) return;
        copy_piece(to + (kRows + n * kLinesAtOnce) * kKTileBytes, weights_of<which>(n), first, size,
                   aligned);
      });
    });
    if (factor < kFactors) {
      k += kChunk;
      if (k >= size) begin(factor + 1);
    }
    cp_async_commit();
  }
};

}  // namespace rnnc::step
