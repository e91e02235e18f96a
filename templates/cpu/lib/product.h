// Small matrix products against a matrix that is packed once and used at every step: product.cpp.
#pragma once

#include "vectors.h"

// A function of product.cpp or dots.cpp, which no library shows to others.
#define RNNC_SHARED __attribute__((visibility("hidden")))

namespace rnnc {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif
// Accumulators of kRowBlock x kPanelVectors, with room for the operands in the register file.
constexpr int kRowBlock = kRegisters == 32 ? 8 : 6;
constexpr int kPanelVectors = 2;
constexpr int64_t kPanel = kPanelVectors * kLanes;

constexpr int64_t padded(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// How a packed matrix is read.
struct Reading {
  bool far = false;        // it lies beyond the core's caches: read ahead of the products
  bool backwards = false;  // from its last panel: what a product before has left in a cache
};

// One panel of a packed matrix, [depth][kPanel], with zeros beyond `columns`. Element (k, j) of the
// matrix is at matrix[k * depth_stride + j * column_stride]; one of the two strides is 1.
RNNC_SHARED void pack_panel(const real* matrix, int64_t depth_stride, int64_t column_stride,
                            int64_t depth, int64_t columns, real* packed);

// out [rows][columns] += left [rows][depth] x packed; with `start`, a row, out = start + left x
// packed. Rows of out and start are aligned and padded.
RNNC_SHARED void multiply(const real* left, int64_t left_stride, const real* packed, int64_t rows,
                          int64_t depth, int64_t columns, real* out, int64_t out_stride,
                          Reading reading = {}, const real* start = nullptr);

// The same without packing, for a few steps only: matrix is [columns][depth] as it comes.
RNNC_SHARED void multiply_unpacked(const real* left, int64_t left_stride, const real* matrix,
                                   int64_t rows, int64_t depth, int64_t columns, real* out,
                                   int64_t out_stride);

}  // namespace rnnc
