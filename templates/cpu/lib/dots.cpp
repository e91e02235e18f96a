// What dots.h declares. It depends on no cell, like product.cpp.
#include "dots.h"

#include <utility>

namespace rnnc {

// The sums of neighbours that are `apart` lanes from each other: of `a` in the lanes whose number
// has no bit `apart`, of `b` in the others.
#if defined(__clang__) || __GNUC__ >= 12
template <int apart, int... lane>
RNNC_INLINE Vector sum_neighbours(Vector a, Vector b, std::integer_sequence<int, lane...>) {
  constexpr int kOther = (int)kLanes;
  return __builtin_shufflevector(a, b, (lane & apart ? lane + kOther : lane)...) +
         __builtin_shufflevector(a, b, (lane & apart ? (lane ^ apart) + kOther : lane ^ apart)...);
}
#else
template <int apart, int... lane>
RNNC_INLINE Vector sum_neighbours(Vector a, Vector b, std::integer_sequence<int, lane...>) {
  Vector sum;
  ((sum[lane] = lane & apart ? b[lane] + b[lane ^ apart] : a[lane] + a[lane ^ apart]), ...);
  return sum;
}
#endif

// A vector whose lane i is the sum of all lanes of `sums[i]`; overwrites them.
template <int apart = 1>
RNNC_INLINE Vector lane_sums(Vector* sums) {
  if constexpr (apart < kLanes) {
    constexpr int kLeft = (int)kLanes / (2 * apart);
#pragma GCC unroll 16
    for (int i = 0; i < kLeft; ++i) {
      sums[i] = sum_neighbours<apart>(sums[2 * i], sums[2 * i + 1],
                                      std::make_integer_sequence<int, (int)kLanes>{});
    }
    return lane_sums<2 * apart>(sums);
  } else {
    return sums[0];
  }
}

// `rows` rows of out [rows][columns] += left x matrix^T, with kLanes / rows columns at a time.
template <int rows>
__attribute__((noinline))
static void add_dots_of_rows(const real* left, int64_t left_stride, const real* matrix,
                             int64_t depth, int64_t columns, real* out, int64_t out_stride) {
  constexpr int kColumns = (int)kLanes / rows;
  const int64_t whole = depth / kLanes * kLanes;
  for (int64_t column = 0; column < columns; column += kColumns) {
    const real* right[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      right[c] = matrix + smaller(column + c, columns - 1) * depth;
    }
    Vector sum[kLanes] = {};
    for (int64_t k = 0; k < whole; k += kLanes) {
      Vector factor[rows], other[kColumns];
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) other[c] = *(const LooseVector*)(right[c] + k);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) factor[r] = *(const LooseVector*)(left + r * left_stride + k);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sum[r * kColumns + c] += factor[r] * other[c];
      }
    }
    alignas(kVectorBytes) real total[kLanes];
    *(Vector*)total = lane_sums(sum);
    for (int i = 0; i < kLanes && whole < depth; ++i) {
      const real* const factors = left + i / kColumns * left_stride;
      for (int64_t k = whole; k < depth; ++k) total[i] += factors[k] * right[i % kColumns][k];
    }
    real* const to = out + column;
    if (column + kColumns <= columns) {
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) to[r * out_stride + c] += total[r * kColumns + c];
      }
    } else {
      for (int r = 0; r < rows; ++r) {
        for (int64_t c = 0; column + c < columns; ++c) to[r * out_stride + c] += total[r * kColumns + c];
      }
    }
  }
}

void add_dots(const real* left, int64_t left_stride, const real* matrix, int64_t rows,
              int64_t depth, int64_t columns, real* out, int64_t out_stride) {
  constexpr int kRows = kLanes < 4 ? (int)kLanes : 4;
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    add_dots_of_rows<kRows>(left + row * left_stride, left_stride, matrix, depth, columns,
                            out + row * out_stride, out_stride);
  }
  for (; row + 2 <= rows; row += 2) {
    add_dots_of_rows<2>(left + row * left_stride, left_stride, matrix, depth, columns,
                        out + row * out_stride, out_stride);
  }
  for (; row < rows; ++row) {
    add_dots_of_rows<1>(left + row * left_stride, left_stride, matrix, depth, columns,
                        out + row * out_stride, out_stride);
  }
}

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
void add_rows(const real* left, int64_t left_stride, const real* right, int64_t right_stride,
              int64_t rows, int64_t depth, int64_t columns, real* out, int64_t out_stride) {
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

void sum_over_rows(const real* left, int64_t left_stride, const real* right, int64_t right_stride,
                   int64_t rows, int64_t depth, int64_t columns, real* out) {
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
