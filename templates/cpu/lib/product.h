// Small matrix products against a matrix that is packed once and used at every step.
#pragma once

#include <cstdint>

namespace rnnc {

// Accumulators of kRowBlock x kPanelVectors, with room for the operands in the register file.
constexpr int kRowBlock = 8;
constexpr int kPanelVectors = kVectorBytes == 64 ? 2 : 1;
constexpr int64_t kPanel = kPanelVectors * kLanes;

constexpr int64_t padded(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// One panel of a packed matrix, [depth][kPanel], with zeros beyond `columns`. Element (k, j) of the
// matrix is at matrix[k * depth_stride + j * column_stride]; one of the two strides is 1.
static void pack_panel(const real* matrix, int64_t depth_stride, int64_t column_stride,
                       int64_t depth, int64_t columns, real* packed) {
  if (columns < kPanel) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < kPanel; ++j) {
        packed[k * kPanel + j] =
            j < columns ? matrix[k * depth_stride + j * column_stride] : real(0);
      }
    }
  } else if (column_stride == 1) {
    for (int64_t k = 0; k < depth; ++k) copy_row(matrix + k * depth_stride, packed + k * kPanel, kPanel);
  } else {
    // A cache line of each column at a time.
    constexpr int64_t kBlock = 64 / sizeof(real);
    for (int64_t first = 0; first < depth; first += kBlock) {
      const int64_t end = first + kBlock < depth ? first + kBlock : depth;
      for (int64_t j = 0; j < kPanel; ++j) {
        const real* column = matrix + j * column_stride;
        for (int64_t k = first; k < end; ++k) packed[k * kPanel + j] = column[k * depth_stride];
      }
    }
  }
}

// `rows` rows of out += left x `panels` packed panels, both compile-time numbers.
template <int rows, int panels>
static inline __attribute__((always_inline)) void multiply_panels(
    const real* left, int64_t left_stride, const real* panel, int64_t depth, real* out,
    int64_t out_stride) {
  constexpr int kVectors = panels * kPanelVectors;
  // From zero, and added to `out` at the end: roundings are those of the sum's own size.
  Vector sum[rows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector right[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      right[v] = *(const Vector*)(panel + (v / kPanelVectors * depth + k) * kPanel +
                                  v % kPanelVectors * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const real factor = left[r * left_stride + k];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] += factor * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) *(Vector*)(out + r * out_stride + v * kLanes) += sum[r][v];
  }
}

// The rows that are left where blocks of kRowBlock end. Few rows take several panels at once, since
// one sum per row and vector would wait for itself.
template <int rows>
static void multiply_few(const real* left, int64_t left_stride, const real* packed, int64_t depth,
                         int64_t columns, real* out, int64_t out_stride) {
  constexpr int kPanels = rows == 1 ? 4 : rows < 4 ? 2 : 1;
  int64_t column = 0;
  for (; column + (kPanels - 1) * kPanel < columns; column += kPanels * kPanel) {
    multiply_panels<rows, kPanels>(left, left_stride, packed + column * depth, depth, out + column,
                                   out_stride);
  }
  for (; column < columns; column += kPanel) {
    multiply_panels<rows, 1>(left, left_stride, packed + column * depth, depth, out + column,
                             out_stride);
  }
}

// out [rows][columns] += left [rows][depth] x packed. out's rows are aligned and padded.
static void multiply(const real* left, int64_t left_stride, const real* packed, int64_t rows,
                     int64_t depth, int64_t columns, real* out, int64_t out_stride) {
  const int64_t blocks = rows / kRowBlock * kRowBlock;
  for (int64_t column = 0; column < columns && blocks > 0; column += kPanel) {
    for (int64_t row = 0; row < blocks; row += kRowBlock) {
      multiply_panels<kRowBlock, 1>(left + row * left_stride, left_stride, packed + column * depth,
                                    depth, out + row * out_stride + column, out_stride);
    }
  }
  left += blocks * left_stride, out += blocks * out_stride, rows -= blocks;
  if (rows >= 4) {
    multiply_few<4>(left, left_stride, packed, depth, columns, out, out_stride);
    left += 4 * left_stride, out += 4 * out_stride, rows -= 4;
  }
  if (rows == 3) multiply_few<3>(left, left_stride, packed, depth, columns, out, out_stride);
  if (rows == 2) multiply_few<2>(left, left_stride, packed, depth, columns, out, out_stride);
  if (rows == 1) multiply_few<1>(left, left_stride, packed, depth, columns, out, out_stride);
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
