// Chunks of K in shared memory, as the products of a backward read them: of the first factor a line
// of K per row of the product, of the second a line of columns per element of K.
#pragma once

#include "lib/kernels/step/factors.cuh"

namespace rnnc::step::tiled_backward {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kChunkWords = 32;              // of K
constexpr int kChunk = kChunkWords * kPack;  // elements
// Padding, so that the lanes of a warp read from different banks.
constexpr int kLinePitch = (kChunkWords + 4) * kPack;  // elements
constexpr int kColumnPad = 8;                          // elements

// A tile of 16 rows of the first factor, 8 words of K from word k on.
RNNC_INLINE void read_lines(u32 (&a)[4], const char* lines, int k) {
  const int lane = threadIdx.x % 32;
  const char* line = lines + lane / 4 * kLinePitch * sizeof(Element);
  const u32* low = reinterpret_cast<const u32*>(line) + k + lane % 4;
  const u32* high = reinterpret_cast<const u32*>(line + 8 * kLinePitch * sizeof(Element)) + k +
                    lane % 4;
  a[0] = as_factor(low[0]);
  a[1] = as_factor(high[0]);
  a[2] = as_factor(low[4]);
  a[3] = as_factor(high[4]);
}
// A tile of 8 columns of the second factor, the same part of K.
RNNC_INLINE void read_columns(u32 (&b)[2], const char* columns, int k, int pitch) {
  const int lane = threadIdx.x % 32;
  if constexpr (kPack == 2) {
    ldmatrix_x2_trans(b, columns + (k * kPack + lane % 16) * pitch * sizeof(Element));
  } else {
    const u32* words = reinterpret_cast<const u32*>(columns) + (k + lane % 4) * pitch + lane / 4;
    b[0] = as_factor(words[0]);
    b[1] = as_factor(words[4 * pitch]);
  }
}

}  // namespace rnnc::step::tiled_backward
