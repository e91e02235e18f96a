// What product.h declares. It depends on no cell: compiled once, it is linked to the kernels of
// all. The file that includes it says what `real` is.
#include "product.h"

#include <type_traits>
#include <utility>

namespace rnnc {

// Exchange the lanes of two vectors: of those whose number has the bit `apart` in the first with
// those that have not in the second.
#if defined(__clang__) || __GNUC__ >= 12
template <int apart, int... lane>
RNNC_INLINE void exchange(Vector& a, Vector& b, std::integer_sequence<int, lane...>) {
  constexpr int kOther = (int)kLanes;
  const Vector first = __builtin_shufflevector(a, b, (lane & apart ? (lane ^ apart) + kOther : lane)...);
  b = __builtin_shufflevector(a, b, (lane & apart ? lane + kOther : lane ^ apart)...);
  a = first;
}
#else
template <int apart, int... lane>
RNNC_INLINE void exchange(Vector& a, Vector& b, std::integer_sequence<int, lane...>) {
  const Vector left = a, right = b;
  ((a[lane] = lane & apart ? right[lane ^ apart] : left[lane]), ...);
  ((b[lane] = lane & apart ? right[lane] : left[lane ^ apart]), ...);
}
#endif

// Transpose kLanes vectors.
template <int apart = 1>
RNNC_INLINE void transpose(Vector* square) {
  if constexpr (apart < kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if (!(i & apart)) {
        exchange<apart>(square[i], square[i + apart],
                        std::make_integer_sequence<int, (int)kLanes>{});
      }
    }
    transpose<2 * apart>(square);
  }
}

void pack_panel(const real* matrix, int64_t depth_stride, int64_t column_stride, int64_t depth,
                int64_t columns, real* packed) {
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
    const int64_t whole = depth / kLanes * kLanes;
    for (int64_t first = 0; first < whole; first += kLanes) {
      for (int64_t j = 0; j < kPanel; j += kLanes) {
        Vector square[kLanes];
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) {
          square[i] = *(const LooseVector*)(matrix + (j + i) * column_stride + first);
        }
        transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) {
          *(Vector*)(packed + (first + i) * kPanel + j) = square[i];
        }
      }
    }
    for (int64_t k = whole; k < depth; ++k) {
      for (int64_t j = 0; j < kPanel; ++j) packed[k * kPanel + j] = matrix[k + j * column_stride];
    }
  }
}

template <int count>
using Count = std::integral_constant<int, count>;

// Call with the number of rows as a constant: 1 to kRowBlock. Of no rows there is nothing to do.
template <int count = kRowBlock, class Body>
RNNC_INLINE void with_count(int64_t rows, Body body) {
  if constexpr (count > 0) {
    if (rows == count) {
      body(Count<count>());
    } else {
      with_count<count - 1>(rows, body);
    }
  }
}

// Read a vector once: g++ would read it again for the product with each row, and AVX2 has two reads
// per cycle for two products.
RNNC_INLINE void read_once(Vector& vector) {
#if defined(__x86_64__) && !defined(__AVX512F__)
  asm("" : "+x"(vector));
#endif
}

// `rows` rows of out += left x a part of the depth of `panels` packed panels; with `start`, a row,
// out = start + left x panels. `next`: of which `ahead` values per value of the depth are fetched.
template <int rows, int panels>
__attribute__((noinline))  // many products use each
static void multiply_panels(
    const real* left, int64_t left_stride, const real* panel, int64_t depth, int64_t part,
    real* out, int64_t out_stride, const real* start, const real* next, int64_t ahead) {
  constexpr int kVectors = panels * kPanelVectors;
  constexpr bool kReadsOnce = rows > 1 && (rows + 1) * kVectors < kRegisters;
  // From zero, and added to `out` at the end: roundings are those of the sum's own size.
  Vector sum[rows][kVectors] = {};
  for (int64_t k = 0; k < part; ++k) {
    Vector right[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      right[v] = *(const Vector*)(panel + (v / kPanelVectors * depth + k) * kPanel +
                                  v % kPanelVectors * kLanes);
      if constexpr (kReadsOnce) read_once(right[v]);
    }
    __builtin_prefetch(next + k * ahead, 0, 2);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const real factor = left[r * left_stride + k];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] += factor * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    real* const to = out + r * out_stride;
    const real* const from = start != nullptr ? start : to;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      *(Vector*)(to + v * kLanes) = *(const Vector*)(from + v * kLanes) + sum[r][v];
    }
  }
}

// The depth in parts, of which one of a panel stays in the L1 cache while blocks of rows pass: at
// most 32 KiB.
constexpr int64_t kDepthPart = 256;

// All columns in groups of panels, and each in parts of the depth: multiply(column, first, part).
template <int panels, class Multiply>
RNNC_INLINE void for_panels(int64_t depth, int64_t columns, bool backwards, Multiply multiply) {
  const int64_t count = padded(columns) / (panels * kPanel);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = (backwards ? count - 1 - i : i) * panels * kPanel;
    for (int64_t first = 0; first < depth; first += kDepthPart) {
      multiply(column, first, depth - first < kDepthPart ? depth - first : kDepthPart);
    }
  }
}

// Where the start values of a part are: later parts add to the first.
RNNC_INLINE const real* start_of(const real* start, int64_t column, int64_t k) {
  return start != nullptr && k == 0 ? start + column : nullptr;
}

// `rows` rows, at most a block. Very few take several panels at once, since one sum per row and
// vector would wait for itself.
template <int rows>
static void multiply_few(const real* left, int64_t left_stride, const real* packed, int64_t depth,
                         int64_t columns, real* out, int64_t out_stride, bool backwards,
                         const real* start) {
  constexpr int kPanels = rows == 1 ? 4 : rows < 4 ? 2 : 1;
  const int64_t whole = padded(columns) / (kPanels * kPanel) * (kPanels * kPanel);
  const auto group = [&](auto panels, int64_t column, int64_t k, int64_t part) {
    const real* const panel = packed + column * depth + k * kPanel;
    multiply_panels<rows, panels.value>(left + k, left_stride, panel, depth, part, out + column,
                                        out_stride, start_of(start, column, k), panel, 0);
  };
  const auto rest = [&] {
    for_panels<1>(depth, columns - whole, backwards, [&](int64_t column, int64_t k, int64_t part) {
      group(Count<1>(), whole + column, k, part);
    });
  };
  if (whole < columns && backwards) rest();
  for_panels<kPanels>(depth, whole, backwards, [&](int64_t column, int64_t k, int64_t part) {
    group(Count<kPanels>(), column, k, part);
  });
  if (whole < columns && !backwards) rest();
}

// Several blocks of rows, of sizes that differ by one at most: a small one would wait for its sums.
// With `far`, each fetches a share of the panel part behind its own.
static void multiply_blocks(const real* left, int64_t left_stride, const real* packed,
                            int64_t rows, int64_t depth, int64_t columns, real* out,
                            int64_t out_stride, Reading reading, const real* start) {
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  const int64_t line = 64 / (int64_t)sizeof(real), share = kPanel / blocks;
  const int64_t ahead = !reading.far ? 0 : share < line ? share : line;
  const int64_t onwards = (reading.backwards ? -kPanel : kPanel) * depth;  // to the next panel
  for_panels<1>(depth, columns, reading.backwards, [&](int64_t column, int64_t k, int64_t part) {
    const real* const panel = packed + column * depth + k * kPanel;
    const real* next = panel + (k + part < depth ? part * kPanel : onwards - k * kPanel);
    int64_t row = 0;
    for (int64_t i = blocks; i > 0; --i) {
      const int64_t count = (rows - row + i - 1) / i;
      const auto block = [&](auto of) {
        multiply_panels<of.value, 1>(left + row * left_stride + k, left_stride, panel, depth, part,
                                     out + row * out_stride + column, out_stride,
                                     start_of(start, column, k), next, ahead);
      };
      with_count(count, block);
      row += count;
      next += ahead * part;
    }
  });
}

void multiply(const real* left, int64_t left_stride, const real* packed, int64_t rows,
              int64_t depth, int64_t columns, real* out, int64_t out_stride, Reading reading,
              const real* start) {
  if (rows > kRowBlock) {
    return multiply_blocks(left, left_stride, packed, rows, depth, columns, out, out_stride,
                           reading, start);
  }
  with_count(rows, [&](auto count) {
    multiply_few<count.value>(left, left_stride, packed, depth, columns, out, out_stride,
                              reading.backwards, start);
  });
}

void multiply_unpacked(const real* left, int64_t left_stride, const real* matrix, int64_t rows,
                       int64_t depth, int64_t columns, real* out, int64_t out_stride) {
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
