// Matrix products of single steps, whose factors are read as they come, without packing: dots.cpp.
#pragma once

#include "product.h"

namespace rnnc {

// out [rows][columns] += left [rows][depth] x matrix^T, with matrix [columns][depth] as it comes.
RNNC_SHARED void add_dots(const real* left, int64_t left_stride, const real* matrix, int64_t rows,
                          int64_t depth, int64_t columns, real* out, int64_t out_stride);

// out [rows][columns] += left [rows][depth] x right [depth][columns].
RNNC_SHARED void add_rows(const real* left, int64_t left_stride, const real* right,
                          int64_t right_stride, int64_t rows, int64_t depth, int64_t columns,
                          real* out, int64_t out_stride);

// out [depth][columns] = left^T x right, with left [rows][depth] and right [rows][columns]: sums
// over batch rows.
RNNC_SHARED void sum_over_rows(const real* left, int64_t left_stride, const real* right,
                               int64_t right_stride, int64_t rows, int64_t depth, int64_t columns,
                               real* out);

}  // namespace rnnc
