// What the products of a single step multiply, and its copy to shared memory.
//
// A factor is x, or a state that dense gates read. A block multiplies it in chunks of K, which are
// copied to shared memory several stages ahead. A stage has a line per vector and per row of a
// matrix, cut into k_tiles.
#pragma once

#include "lib/kernels/step/arguments.cuh"
#include "lib/mma/k_tile.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc::step {

constexpr bool kHasInput = Cell::kInputGates > 0;
constexpr int kFactors = kHasInput + Cell::kSources;

RNNC_CONSTEXPR int source_of(int factor) { return factor - kHasInput; }
RNNC_CONSTEXPR bool is_input(int factor) { return kHasInput && factor == 0; }
RNNC_CONSTEXPR int matrices_of(int factor) {
  return is_input(factor) ? Cell::kInputGates : kSourcePairs[source_of(factor)];
}
// The place of matrix i of a factor in W or R, and its gate.
RNNC_CONSTEXPR int place_of(int factor, int i) {
  return is_input(factor) ? i : kPairMatrix[kSourceFirstPair[source_of(factor)] + i];
}
RNNC_CONSTEXPR int gate_of(int factor, int i) {
  return is_input(factor) ? i : kPairGate[kSourceFirstPair[source_of(factor)] + i];
}
RNNC_CONSTEXPR int most_matrices() {
  int most = 1;
  for (int factor = 0; factor < kFactors; ++factor) most = maximum(most, matrices_of(factor));
  return most;
}

// The sizes of a block that the plan gives, as the kernels use them.
constexpr int kThreads = 32 * Tile::kRowWarps * Tile::kUnitWarps * Tile::kSlices;
constexpr int kRows = 16 * Tile::kRowTiles * Tile::kRowWarps;  // batch rows
constexpr int kUnits = 8 * Tile::kUnitWarps;
constexpr int kLines = kRows + most_matrices() * kUnits;
constexpr int kPlaneBytes = (kLines + 1) * kKTileBytes;  // planes begin in other banks in turns
constexpr int kStageBytes = Tile::kKTiles * kPlaneBytes;
constexpr int kChunk = Tile::kKTiles * kKTile;  // elements of K per stage
constexpr int kPieceBytes = 16;
constexpr int kPiece = kPieceBytes / static_cast<int>(sizeof(Element));  // elements per copy
constexpr int kPieces = kChunk / kPiece;                                 // of a line
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
    aligned = (size * sizeof(Element) | pitch * sizeof(Element) | reinterpret_cast<u64>(vectors) |
               reinterpret_cast<u64>(weights)) %
                  kPieceBytes ==
              0;
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

  // Copies a piece of a line from element `first` on, or zeros.
  RNNC_MEMBER void copy(char* to, const Element* from, int first) const {
    if (aligned) {
      // NOTE: an address that is not read must be aligned too.
      const bool valid = from && first < size;
      cp_async_16_or_zero(to, valid ? from + first : nullptr, valid ? kPieceBytes : 0);
      return;
    }
#pragma unroll 1
    for (int e = 0; e < kPiece; ++e) {
      const bool valid = from && first + e < size;
      reinterpret_cast<Element*>(to)[e] = valid ? from[first + e] : Element{};
    }
  }

  // Begins the copy of the next chunk, if there is one; one group of copies in any case.
  RNNC_MEMBER void next(char* stage) {
    const int piece = threadIdx.x % kPieces, first = k + piece * kPiece;
    char* to = stage + piece / 4 * kPlaneBytes + line * kKTileBytes + piece % 4 * kPieceBytes;
    if (factor < kFactors) {
      repeat<kRows / kLinesAtOnce>([&](int n) {
        const bool valid = line + n * kLinesAtOnce < tile.rows;
        copy(to + n * kLinesAtOnce * kKTileBytes,
             valid ? vectors + n * kLinesAtOnce * pitch : nullptr, first);
      });
    }
    unroll<kFactors>([&](auto index) {
      constexpr int which = decltype(index)::value, lines = matrices_of(which) * kUnits;
      if (factor != which) return;
      repeat<ceil_div(lines, kLinesAtOnce)>([&](int n) {
        if (n * kLinesAtOnce + line >= lines) return;
        copy(to + (kRows + n * kLinesAtOnce) * kKTileBytes, weights_of<which>(n), first);
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
