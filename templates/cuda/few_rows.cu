// Product of a few rows with the input weights of a layer as these lie, in the order of wx: units of
// all heads, and the gates of each unit beside each other. RNNC_TO is the type of all tensors;
// float32 is rounded to TF32.
//
// A block has 16 columns of up to 16 rows, and its warps share K: all loads of a short K are in flight
// together.
#include "lib/ptx/element.cuh"

namespace rnnc {
using Element = RNNC_TO;
constexpr bool kTf32 = true;
constexpr int kPairGate[] = {0};  // the accumulator asks for a cell's gates; here is none
}  // namespace rnnc

#include "lib/mma/accumulator.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kTileColumns = 16, kRowTiles = 2, kRows = 8 * kRowTiles;
constexpr int kAhead = 4;  // k_tiles of a warp in flight

// Mirrored by runtime/cuda/products/few_rows.py. Lines of x and W begin at multiples of 16 bytes.
struct FewRows {
  const Element* x;  // [rows, features], at most 16 rows
  const Element* W;  // [gates, N, D, features], by its strides
  Element* to;       // [rows, N, D, gates]
  int64 rows, features, columns, gates, dim;
  int64 of_gate, of_head, of_unit;  // elements of W between them
};

RNNC_INLINE const Element* line_of(const FewRows& a, u32 column) {
  const u32 unit = column / static_cast<u32>(a.gates), head = unit / static_cast<u32>(a.dim);
  return a.W + (column - unit * a.gates) * a.of_gate + head * a.of_head +
         (unit - head * a.dim) * a.of_unit;
}

// The words of a k_tile that a lane multiplies; zero beyond the end of a line, or where none is.
RNNC_INLINE void load_words(u32 (&words)[4], const Element* line, int k, int features) {
  repeat<4>([&](int i) { words[i] = 0u; });
  if (line && k < features) ld_global_nc(words, line + k);
  // The matrix instruction truncates, which would bias long sums.
  if constexpr (kPack == 1) repeat<4>([&](int i) { words[i] = round_to_tf32(words[i]); });
}

RNNC_INLINE void few_rows(const FewRows& a, float (*parts)[kTileColumns][kRows + 1]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int features = static_cast<int>(a.features), k_tiles = ceil_div(features, kKTile);
  const u32 column = blockIdx.x * kTileColumns;
  const bool one_tile = a.rows <= 8;
  const Element *weights[2], *rows[kRowTiles];
  repeat<2>([&](int half) {
    const u32 own = column + 8 * half + lane / 4;
    weights[half] = own < a.columns ? line_of(a, own) : nullptr;
  });
  repeat<kRowTiles>([&](int tile) {
    const int row = 8 * tile + lane / 4;
    rows[tile] = row < a.rows ? a.x + row * a.features : nullptr;
  });
  Accumulator<2> sum[kRowTiles];
  repeat<kRowTiles>([&](int tile) { sum[tile].clear(); });
#pragma unroll 1
  for (int first = warp; first < k_tiles; first += kAhead * kWarps) {
    u32 w[kAhead][2][4], x[kAhead][kRowTiles][4];
    repeat<kAhead>([&](int i) {
      const int k = (first + i * kWarps) * kKTile + lane % 4 * 4 * kPack;
      repeat<2>([&](int half) { load_words(w[i][half], weights[half], k, features); });
      repeat<kRowTiles>([&](int tile) { load_words(x[i][tile], rows[tile], k, features); });
    });
    unroll<2 * kAhead>([&](auto index) {
      constexpr int i = decltype(index)::value / 2, step = decltype(index)::value % 2;
      const u32 factor[4] = {w[i][0][2 * step], w[i][1][2 * step], w[i][0][2 * step + 1],
                             w[i][1][2 * step + 1]};
      // NOTE: in two bytes these branches take longer than the products that they leave out.
      if (kPack == 1 && first + i * kWarps >= k_tiles) return;
      repeat<kRowTiles>([&](int tile) {
        if (kPack == 1 && tile > 0 && one_tile) return;
        sum[tile].template add<step>(factor, x[i][tile][2 * step], x[i][tile][2 * step + 1], {});
      });
    });
  }
  repeat<kRowTiles>([&](int tile) {
    repeat<4>([&](int i) {
      parts[warp][lane / 4 + i / 2 * 8][8 * tile + lane % 4 * 2 + i % 2] = sum[tile].total(i);
    });
  });
  __syncthreads();
  const u32 own = threadIdx.x % kTileColumns, row = threadIdx.x / kTileColumns;
  if (column + own >= a.columns || row >= a.rows) return;
  float total = 0;
  repeat<kWarps>([&](int part) { total += parts[part][own][row]; });
  a.to[row * a.columns + column + own] = to_element<Element>(total);
}

}  // namespace rnnc

extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_few_rows(const __grid_constant__ rnnc::FewRows given) {
  using namespace rnnc;
  static_assert(kThreads == kTileColumns * kRows, "a thread per result");
  __shared__ float parts[kWarps][kTileColumns][kRows + 1];
  few_rows(given, parts);
}
