// The backward of a single step up to the gradients of the weights, by matrix instructions.
//
// A block has kUnits units of a head, with the gradients of all their gates, and some columns of a
// factor. It goes over the batch in chunks: it computes the gradients of the gates, which all
// blocks of the same units compute again, and multiplies them with the factor. K is the batch.
// The blocks of the first columns also write what the pointwise map gives.
#pragma once

#include "lib/kernels/step/backward.cuh"
#include "lib/kernels/step/chunks.cuh"

namespace rnnc::step::tiled_backward {

constexpr int kUnits = 16;                                 // rows of an instruction
constexpr int kColumns = 8 * Tile::kColumnTiles * kWarps;  // of a factor
constexpr int kFactorPitch = kColumns + kColumnPad;        // elements per batch row
constexpr int kFactorBytes = kChunk * kFactorPitch * static_cast<int>(sizeof(Element));
constexpr int kGateBytes = Cell::kGates * kUnits * kLinePitch * static_cast<int>(sizeof(Element));
constexpr int kLanesOfUnit = kThreads / kUnits;
constexpr int kSumBytes = kThreads * Cell::kSums * static_cast<int>(sizeof(real));
static_assert(maximum(kFactorBytes + kGateBytes, kSumBytes) <= Tile::kShared,
              "the shared memory that the plan counted");

// A block's units, and its columns of a factor.
struct GradientTile {
  int64 plane, first_unit;
  int head, units, factor, column;
  bool first;  // of the blocks of its units

  RNNC_MEMBER explicit GradientTile(const BackwardStepArguments& a) {
    const int dim = static_cast<int>(a.dim), tiles = ceil_div(dim, kUnits);
    head = blockIdx.x / tiles;
    const int within = (blockIdx.x - head * tiles) * kUnits;
    plane = a.heads * a.dim;
    first_unit = int64{head} * dim + within;
    units = minimum(kUnits, dim - within);
    first = blockIdx.y == 0;
    const int columns = ceil_div(static_cast<int>(a.input), kColumns), y = blockIdx.y;
    factor = kHasInput && y < columns ? 0 : kHasInput;
    int left = factor ? y - columns : y;
    if (!kHasInput || factor) {
      const int each = ceil_div(dim, kColumns);
      factor += left / each;
      left %= each;
    }
    column = left * kColumns;
  }
};

// The chunks of a factor's columns, and the sums of a warp.
template <int factor>
struct FactorColumns {
  static constexpr bool kInput = is_input(factor);
  static constexpr int kMatrices = matrices_of(factor);
  const Element* vectors;  // of the block's head, from its first column on
  int64 pitch;
  int size;  // columns, from the first on
  float sum[kMatrices][Tile::kColumnTiles][4];

  RNNC_MEMBER FactorColumns(const BackwardStepArguments& a, const GradientTile& tile) {
    constexpr int state = kInput ? 0 : kSourceState[kInput ? 0 : source_of(factor)];
    pitch = kInput ? a.input : tile.plane;
    size = static_cast<int>(kInput ? a.input : a.dim) - tile.column;
    vectors = (kInput ? a.x : a.before[state] + tile.head * a.dim) + tile.column;
    memset(sum, 0, sizeof sum);
  }

  RNNC_MEMBER void copy(char* to, int64 first_row, int64 batch) const {
    constexpr int pieces = kColumns / kPiece;
#pragma unroll 1
    for (int i = threadIdx.x; i < kChunk * pieces; i += kThreads) {
      const int row = i / pieces, piece = i % pieces;
      const int count = first_row + row < batch ? size - piece * kPiece : 0;
      copy_piece<Tile::kAligned>(
          to + row * kFactorPitch * sizeof(Element) + piece * kPieceBytes,
          vectors + (first_row + row) * pitch + piece * kPiece, count);
    }
    cp_async_commit();
  }

  // Adds the products of a chunk of batch rows.
  RNNC_MEMBER void add(const char* columns, const char* gates) {
    const int first = threadIdx.x / 32 * Tile::kColumnTiles * 8;
#pragma unroll
    for (int k = 0; k < kChunkWords; k += 8) {
      u32 b[Tile::kColumnTiles][2];
      repeat<Tile::kColumnTiles>([&](int n) {
        read_columns(b[n], columns + (first + 8 * n) * sizeof(Element), k, kFactorPitch);
      });
      unroll<kMatrices>([&](auto index) {
        constexpr int i = decltype(index)::value, gate = gate_of(factor, i);
        u32 rows[4];
        read_lines(rows, gates + gate * kUnits * kLinePitch * sizeof(Element), k);
        repeat<Tile::kColumnTiles>(
            [&](int n) { multiply_add(Element{}, sum[i][n], rows, b[n][0], b[n][1]); });
      });
    }
  }

  RNNC_MEMBER void store(const BackwardStepArguments& a, const GradientTile& tile) const {
    const int lane = threadIdx.x % 32, line = lane / 4, word = lane % 4;
    const int first = threadIdx.x / 32 * Tile::kColumnTiles * 8;
    const int64 columns = kInput ? a.input : a.dim;
    Element* to = (kInput ? a.d_W : a.d_R) + tile.column;
    repeat<kMatrices>([&](int i) {
      repeat<Tile::kColumnTiles>([&](int n) {
        repeat<4>([&](int e) {
          const int unit = line + e / 2 * 8, column = first + 8 * n + 2 * word + e % 2;
          if (unit >= tile.units || column >= size) return;
          const int64 row = place_of(factor, i) * tile.plane + tile.first_unit + unit;
          to[row * columns + column] = to_element<Element>(sum[i][n][e]);
        });
      });
    });
  }
};

// Computes the gradients of the gates of a chunk of batch rows, and stores them as factors.
RNNC_INLINE void store_gates(const BackwardStepArguments& a, const GradientTile& tile,
                             int64 first_row, char* gates, GradientSums& sums) {
  const int unit = threadIdx.x % kUnits;
  const int64 place = tile.first_unit + unit;
#pragma unroll 1
  for (int row = threadIdx.x / kUnits; row < kChunk; row += kLanesOfUnit) {
    const int64 b = first_row + row;
    Element* to = reinterpret_cast<Element*>(gates) + unit * kLinePitch + row;
    if (b >= a.batch || unit >= tile.units) {
      repeat<Cell::kGates>([&](int g) { to[g * kUnits * kLinePitch] = Element{}; });
      continue;
    }
    const ItemGradients item(a, tile.plane, place, b * tile.plane + place);
    repeat<Cell::kGates>([&](int g) {
      to[g * kUnits * kLinePitch] = to_element<Element>(item.d_gate[g]);
    });
    if (!tile.first) continue;
    item.store(a, tile.plane, place, b);
    repeat<Cell::kSums>([&](int i) { sums[i] += item.sums[i]; });
  }
}

// Adds the sums of all threads of a unit.
RNNC_INLINE void store_sums(const BackwardStepArguments& a, const GradientTile& tile,
                            const GradientSums& sums) {
  real* all = reinterpret_cast<real*>(shared);  // [kSums, lanes, units]
  __syncthreads();
  repeat<Cell::kSums>([&](int i) { all[i * kThreads + threadIdx.x] = sums[i]; });
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < Cell::kSums * kUnits; i += kThreads) {
    const int number = i / kUnits, unit = i % kUnits;
    if (unit >= tile.units) continue;
    real sum = 0;
    for (int lane = 0; lane < kLanesOfUnit; ++lane) {
      sum += all[number * kThreads + lane * kUnits + unit];
    }
    a.d_weights[number * tile.plane + tile.first_unit + unit] = to_element<Element>(sum);
  }
}

RNNC_INLINE void run(const BackwardStepArguments& a) {
  const GradientTile tile(a);
  GradientSums sums = {};
  char* gates = shared + kFactorBytes;
  bool multiplied = false;
  unroll<kFactors>([&](auto index) {
    constexpr int factor = decltype(index)::value;
    if (tile.factor != factor || !(is_input(factor) ? a.d_W : a.d_R)) return;
    multiplied = true;
    FactorColumns<factor> columns(a, tile);
#pragma unroll 1
    for (int64 row = 0; row < a.batch; row += kChunk) {
      if (row) __syncthreads();  // all warps have read the chunk before
      columns.copy(shared, row, a.batch);
      store_gates(a, tile, row, gates, sums);
      cp_async_wait<0>();
      __syncthreads();
      columns.add(shared, gates);
    }
    columns.store(a, tile);
  });
  if (!tile.first) return;
  if (!multiplied) {
    for (int64 row = 0; row < a.batch; row += kChunk) store_gates(a, tile, row, gates, sums);
  }
  if (Cell::kSums && a.d_weights) store_sums(a, tile, sums);
}

}  // namespace rnnc::step::tiled_backward
