// Matrix products of gradients, for few batch rows: all factors are read as they come.
#pragma once

#include "dots.h"

namespace rnnc {

constexpr int kWide = 4;  // vectors of a row at a time

// out [rows][columns] += left [rows][depth] x right [depth][columns], for kWide vectors of columns.
template <int rows>
RNNC_INLINE void add_rows_of(const real* left, int64_t left_stride, const real* right,
                             int64_t right_stride, int64_t depth, real* out, int64_t out_stride) {
  Vector sum[rows][kWide] = {};
  for (int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) {
      const Vector other = *(const LooseVector*)(right + k * right_stride + v * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sum[r][v] += left[r * left_stride + k] * other;
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < kWide; ++v) {
      LooseVector* const to = (LooseVector*)(out + r * out_stride + v * kLanes);
      *to = *to + sum[r][v];
    }
  }
}

// The same for any number of rows and columns.
__attribute__((noinline))
static void add_rows(const real* left, int64_t left_stride, const real* right,
                     int64_t right_stride, int64_t rows, int64_t depth, int64_t columns, real* out,
                     int64_t out_stride) {
  const int64_t whole = columns / (kWide * kLanes) * (kWide * kLanes);
  for (int64_t column = 0; column < whole; column += kWide * kLanes) {
    const real* const from = right + column;
    real* const to = out + column;
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      add_rows_of<4>(left + row * left_stride, left_stride, from, right_stride, depth,
                     to + row * out_stride, out_stride);
    }
    for (; row < rows; ++row) {
      add_rows_of<1>(left + row * left_stride, left_stride, from, right_stride, depth,
                     to + row * out_stride, out_stride);
    }
  }
  for (int64_t row = 0; row < rows && whole < columns; ++row) {
    for (int64_t k = 0; k < depth; ++k) {
      const real factor = left[row * left_stride + k];
      const real* const from = right + k * right_stride;
      real* const to = out + row * out_stride;
#pragma omp simd
      for (int64_t column = whole; column < columns; ++column) to[column] += factor * from[column];
    }
  }
}

// out [depth][columns] = left^T x right, with left [rows][depth] and right [rows][columns]: sums
// over batch rows.
__attribute__((noinline))
static void sum_over_rows(const real* left, int64_t left_stride, const real* right,
                          int64_t right_stride, int64_t rows, int64_t depth, int64_t columns,
                          real* out) {
  const int64_t whole = columns / (kWide * kLanes) * (kWide * kLanes);
  for (int64_t k = 0; k < depth; ++k) {
    real* const to = out + k * columns;
    for (int64_t column = 0; column < whole; column += kWide * kLanes) {
      Vector sum[kWide] = {};
      for (int64_t row = 0; row < rows; ++row) {
        const real factor = left[row * left_stride + k];
        const real* const from = right + row * right_stride + column;
#pragma GCC unroll 4
        for (int v = 0; v < kWide; ++v) sum[v] += factor * *(const LooseVector*)(from + v * kLanes);
      }
#pragma GCC unroll 4
      for (int v = 0; v < kWide; ++v) *(LooseVector*)(to + column + v * kLanes) = sum[v];
    }
    for (int64_t column = whole; column < columns; ++column) {
      real sum = 0;
      for (int64_t row = 0; row < rows; ++row) {
        sum += left[row * left_stride + k] * right[row * right_stride + column];
      }
      to[column] = sum;
    }
  }
}

}  // namespace rnnc
