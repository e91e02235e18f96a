// Small matrix products against a matrix that is packed once and used at every step.
#pragma once

#include <cstdint>

namespace rnnc {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif
constexpr int64_t kLanes = kVectorBytes / sizeof(real);
typedef real Vector __attribute__((vector_size(kVectorBytes)));

// Accumulators of kRowBlock x kPanelVectors, with room for the operands in the register file.
constexpr int kRowBlock = 8;
constexpr int kPanelVectors = kVectorBytes == 64 ? 2 : 1;
constexpr int64_t kPanel = kPanelVectors * kLanes;

constexpr int64_t padded(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// packed: [columns / kPanel][depth][kPanel], zeros beyond `columns`; matrix element (k, j) is at
// matrix[k * depth_stride + j * column_stride].
static void pack(const real* matrix, int64_t depth_stride, int64_t column_stride, int64_t depth,
                 int64_t columns, real* packed) {
  for (int64_t panel = 0; panel < padded(columns); panel += kPanel) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < kPanel; ++j) {
        *packed++ = panel + j < columns
                        ? matrix[k * depth_stride + (panel + j) * column_stride]
                        : real(0);
      }
    }
  }
}

// rows of out += left x packed panel, for a compile-time number of rows.
template <int rows>
static inline __attribute__((always_inline)) void multiply_panel(
    const real* left, int64_t left_stride, const real* panel, int64_t depth, real* out,
    int64_t out_stride) {
  // From zero, and added to `out` at the end: roundings are those of the sum's own size.
  Vector sum[rows][kPanelVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector right[kPanelVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) {
      right[v] = *(const Vector*)(panel + k * kPanel + v * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const real factor = left[r * left_stride + k];
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) sum[r][v] += factor * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) {
      *(Vector*)(out + r * out_stride + v * kLanes) += sum[r][v];
    }
  }
}

// out [rows][columns] += left [rows][depth] x packed. out's rows are aligned and padded.
static void multiply(const real* left, int64_t left_stride, const real* packed, int64_t rows,
                     int64_t depth, int64_t columns, real* out, int64_t out_stride) {
  for (int64_t column = 0; column < columns; column += kPanel) {
    const real* panel = packed + column * depth;
    int64_t row = 0;
    for (; row + kRowBlock <= rows; row += kRowBlock) {
      multiply_panel<kRowBlock>(left + row * left_stride, left_stride, panel, depth,
                                out + row * out_stride + column, out_stride);
    }
    if (rows - row >= 4) {
      multiply_panel<4>(left + row * left_stride, left_stride, panel, depth,
                        out + row * out_stride + column, out_stride);
      row += 4;
    }
    for (; row < rows; ++row) {
      multiply_panel<1>(left + row * left_stride, left_stride, panel, depth,
                        out + row * out_stride + column, out_stride);
    }
  }
}

// The same without packing, for a few steps only: matrix is [columns][depth] as it comes.
static void multiply_unpacked(const real* left, int64_t left_stride, const real* matrix,
                              int64_t rows, int64_t depth, int64_t columns, real* out,
                              int64_t out_stride) {
  for (int64_t column = 0; column < columns; ++column) {
    const real* right = matrix + column * depth;
    for (int64_t row = 0; row < rows; ++row) {
      real sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < depth; ++k) sum += left[row * left_stride + k] * right[k];
      out[row * out_stride + column] += sum;
    }
  }
}

}  // namespace rnnc
