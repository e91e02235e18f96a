// The gradients of x and of the states that R multiplies: those of the gates times W and R, by
// matrix instructions.
//
// A block has kRows batch rows and kColumns columns of a factor. K runs over the gates and units
// that the factor feeds: all of them for x, those of the head for a state. Warps share the columns
// and, in slices, each chunk of K.
#pragma once

#include "lib/kernels/step/chunks.cuh"

namespace rnnc::step::tiled_backward::inputs {

constexpr int kColumnWarps = 2, kSlices = kWarps / kColumnWarps, kStages = Tile::kStages;
constexpr int kRows = 16 * Tile::kRowTiles;
constexpr int kColumnTiles = Tile::kInputColumnTiles;  // of 8 columns, per warp
constexpr int kColumns = 8 * kColumnTiles * kColumnWarps;
constexpr int kPitch = kColumns + kColumnPad;  // elements per element of K
constexpr int kBytes = static_cast<int>(sizeof(Element));
constexpr int kLineBytes = kRows * kLinePitch * kBytes;
constexpr int kStageBytes = kLineBytes + kChunk * kPitch * kBytes;
constexpr int kItems = kRows * kColumns;
static_assert(maximum(kStages * kStageBytes, kSlices * kItems * int{sizeof(float)}) <=
                  Tile::kShared,
              "the shared memory that the plan counted");
static_assert(kChunkWords == 8 * kSlices, "a slice has 8 words of a chunk");

// A thread copies one piece of some lines.
constexpr int kLinePieces = kChunk / kPiece, kColumnPieces = kColumns / kPiece;
constexpr int kLinesAtOnce = kThreads / kLinePieces, kWeightsAtOnce = kThreads / kColumnPieces;
static_assert(kChunk % kWeightsAtOnce == 0, "all lines of weights");

// A block's batch rows and columns, and the chunks of K that it copies.
struct InputTile {
  const BackwardStepArguments& a;
  int64 plane, first_row;
  int source, head, column, columns, rows, pairs;  // a source below 0 is x
  int size, segment, k;          // of K: of a segment, and the next chunk
  const Element *gates, *weights;  // this thread's first pieces of the next chunk
  int64 pitch, gate_pitch;         // of weights and of gates

  RNNC_MEMBER explicit InputTile(const BackwardStepArguments& arguments) : a(arguments) {
    const int dim = static_cast<int>(a.dim), heads = static_cast<int>(a.heads);
    plane = a.heads * a.dim;
    int tile = blockIdx.x;
    const int of_input = kHasInput && a.d_x ? ceil_div(static_cast<int>(a.input), kColumns) : 0;
    const int of_head = ceil_div(dim, kColumns);
    source = tile < of_input ? -1 : (tile - of_input) / (of_head * heads);
    if (source >= 0) tile = (tile - of_input) % (of_head * heads);
    head = source < 0 ? 0 : tile / of_head;
    column = (source < 0 ? tile : tile % of_head) * kColumns;
    pitch = source < 0 ? a.input : a.dim;
    columns = minimum(kColumns, static_cast<int>(pitch) - column);
    pairs = source < 0 ? 1 : kSourcePairs[source];
    size = source < 0 ? static_cast<int>(Cell::kInputGates * plane) : dim;
    first_row = int64{blockIdx.y} * kRows;
    rows = static_cast<int>(a.batch - first_row < kRows ? a.batch - first_row : kRows);
    begin(0);
  }

  // A segment of K: all gates and units that x feeds, or the units of a matrix's gate.
  RNNC_MEMBER void begin(int which) {
    segment = which;
    k = 0;
    if (which == pairs) return;
    const bool pairs_of_inputs = source < 0 || !a.d_pairs;
    gate_pitch = (pairs_of_inputs ? Cell::kInputGates : Cell::kDensePairs) * plane;
    const int64 place =
        source < 0 ? 0 : kPairMatrix[kSourceFirstPair[source] + which] * plane + head * a.dim;
    const int t = threadIdx.x;
    gates = (pairs_of_inputs ? a.d_inputs : a.d_pairs) + place +
            (first_row + t / kLinePieces) * gate_pitch + t % kLinePieces * kPiece;
    weights = (source < 0 ? a.W : a.R) + (place + t / kColumnPieces) * pitch + column +
              t % kColumnPieces * kPiece;
  }

  // Begins the copy of the next chunk, if there is one; one group of copies in any case.
  RNNC_MEMBER void next(char* stage) {
    if (segment < pairs) {
      const int t = threadIdx.x, row = t / kLinePieces, piece = t % kLinePieces;
      char* lines = stage + row * kLinePitch * kBytes + piece * kPieceBytes;
      repeat<ceil_div(kRows, kLinesAtOnce)>([&](int copy) {
        const int more = copy * kLinesAtOnce;
        if (kRows % kLinesAtOnce && row + more >= kRows) return;
        copy_piece<Tile::kAligned>(lines + more * kLinePitch * kBytes, gates + more * gate_pitch,
                                   row + more < rows ? size - k - piece * kPiece : 0);
      });
      const int line = t / kColumnPieces, place = t % kColumnPieces;
      char* to = stage + kLineBytes + line * kPitch * kBytes + place * kPieceBytes;
      repeat<kChunk / kWeightsAtOnce>([&](int copy) {
        const int more = copy * kWeightsAtOnce;
        copy_piece<Tile::kAligned>(to + more * kPitch * kBytes, weights + more * pitch,
                                   k + line + more < size ? columns - place * kPiece : 0);
      });
      gates += kChunk;
      weights += kChunk * pitch;
      k += kChunk;
      if (k >= size) begin(segment + 1);
    }
    cp_async_commit();
  }

  RNNC_MEMBER int chunks() const { return pairs * ceil_div(size, kChunk); }

  RNNC_MEMBER void store(int row, int place, float sum) const {
    if (row >= rows || place >= columns) return;
    const int64 b = first_row + row;
    if (source < 0) {
      a.d_x[b * a.input + column + place] = to_element<Element>(sum);
      return;
    }
    const int64 item = b * plane + head * a.dim + column + place;
    const int state = kSourceState[source];
    a.d_states[state][item] = to_element<Element>(sum + a.d_before[state][item]);
  }
};

RNNC_INLINE void run(const BackwardStepArguments& a) {
  InputTile tile(a);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = warp % kColumnWarps * 8 * kColumnTiles, slice = warp / kColumnWarps;
  float sum[Tile::kRowTiles][kColumnTiles][4] = {};
  const int chunks = tile.chunks();
  repeat<kStages - 1>([&](int stage) { tile.next(shared + stage * kStageBytes); });
  int stage = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the stage is there, and all warps have read the one before it
    tile.next(shared + (stage ? stage - 1 : kStages - 1) * kStageBytes);
    const char* lines = shared + stage * kStageBytes;
    const char* columns = lines + kLineBytes + first * kBytes;
    u32 rows[Tile::kRowTiles][4];
    repeat<Tile::kRowTiles>(
        [&](int m) { read_lines(rows[m], lines + 16 * m * kLinePitch * kBytes, 8 * slice); });
    repeat<kColumnTiles>([&](int n) {
      u32 b[2];
      read_columns(b, columns + 8 * n * kBytes, 8 * slice, kPitch);
      repeat<Tile::kRowTiles>(
          [&](int m) { multiply_add(Element{}, sum[m][n], rows[m], b[0], b[1]); });
    });
    stage = stage + 1 < kStages ? stage + 1 : 0;
  }
  cp_async_wait<0>();
  __syncthreads();
  float* partials = reinterpret_cast<float*>(shared);  // [slices, rows, columns]
  repeat<Tile::kRowTiles>([&](int m) {
    repeat<kColumnTiles>([&](int n) {
      float* to = partials + slice * kItems + (16 * m + lane / 4) * kColumns + first + 8 * n +
                  2 * (lane % 4);
      *reinterpret_cast<float2*>(to) = make_float2(sum[m][n][0], sum[m][n][1]);
      *reinterpret_cast<float2*>(to + 8 * kColumns) = make_float2(sum[m][n][2], sum[m][n][3]);
    });
  });
  __syncthreads();
#pragma unroll 1
  for (int item = threadIdx.x; item < kItems; item += kThreads) {
    float total = 0;
    repeat<kSlices>([&](int s) { total += partials[s * kItems + item]; });
    tile.store(item / kColumns, item % kColumns, total);
  }
}

}  // namespace rnnc::step::tiled_backward::inputs
