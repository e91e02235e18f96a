// The recurrence, forward: for one head and some batch rows, all steps.
#pragma once

#include "layout.h"
#include "product.h"

namespace rnnc {

// gates[row][gate][unit] = bias + input share.
static void load_inputs(const ForwardArguments& a, const Task& task, int64_t step,
                        const real* bias, real* gates, int64_t width) {
  const int64_t dim = a.sizes.dim;
  const int64_t unit_stride = a.wx_strides[3], gate_stride = a.wx_strides[4];
  for (int64_t row = 0; row < task.rows; ++row) {
    real* out = gates + row * kGates * width;
    std::memcpy(out, bias, (size_t)(kGates * width) * sizeof(real));
    const real* wx = a.wx + step * a.wx_strides[0] + (task.first_row + row) * a.wx_strides[1] +
                     task.head * a.wx_strides[2];
    if (unit_stride == 1) {
      for (int g = 0; g < kInputGates; ++g) add_row(wx + g * gate_stride, out + g * width, dim);
    } else {
      for (int64_t d = 0; d < dim; ++d) {
        for (int g = 0; g < kInputGates; ++g) {
          out[g * width + d] += wx[d * unit_stride + g * gate_stride];
        }
      }
    }
  }
}

// packed: null where packing the matrices would cost more than it saves.
static void run_forward(const ForwardArguments& a, const Task& task, const real* packed) {
  const Sizes& size = a.sizes;
  const int64_t dim = size.dim, width = padded(dim), matrix = dim * width;
  const int64_t row_stride = size.heads * dim;
  const int64_t step_stride = time_stride(size.batch * row_stride);
  const int64_t origin = task.first_row * row_stride + task.head * dim;
  Scratch bias(kGates * width), diagonal(kDiagonalPairs * width), params(kParams * width);
  Scratch gates(task.rows * kGates * width);
  if (a.b != nullptr) {
    for (int i = 0; i < kBiasGates; ++i) {
      load_head(a.b + i * size.heads * dim, 1, task.head, size, bias + kBias[i] * width, width);
    }
  }
  load_head(a.R_diag, kDiagonalPairs, task.head, size, diagonal, width);
  load_head(a.params, kParams, task.head, size, params, width);
  const real* before[kStates];
  real* after[kStates];
  for (int64_t step = 0; step < size.steps; ++step) {
    for (int s = 0; s < kStates; ++s) {
      before[s] = states_before(step, a.initial[s], a.states[s], step_stride) + origin;
      after[s] = a.states[s] + step * step_stride + origin;
    }
    load_inputs(a, task, step, bias, gates, width);
    for (int i = 0; i < kDensePairs; ++i) {
      const int p = kDenseOrder[i];
      const real* source = before[kDenseSource[p]];
      real* gate = gates + kDenseGate[p] * width;
      const int64_t place = p * size.heads + task.head;
      if (packed != nullptr) {
        multiply(source, row_stride, packed + place * matrix, task.rows, dim, dim, gate,
                 kGates * width);
      } else {
        multiply_unpacked(source, row_stride, a.R + place * dim * dim, task.rows, dim, dim, gate,
                          kGates * width);
      }
    }
    for (int64_t row = 0; row < task.rows; ++row) {
      real* gate_row = gates + row * kGates * width;
      const int64_t offset = row * row_stride;
      for (int i = 0; i < kDiagonalPairs; ++i) {
        const int p = kDiagonalOrder[i];
        add_product(diagonal + p * width, before[kDiagonalSource[p]] + offset,
                    gate_row + kDiagonalGate[p] * width, dim);
      }
      if (a.kept != nullptr) {
        real* kept = a.kept + (step * step_stride + origin + offset) * kSaved;
        forward_row<true>(gate_row, before, after, offset, params, width, kept, dim);
      } else {
        forward_row<false>(gate_row, before, after, offset, params, width, nullptr, dim);
      }
    }
  }
  for (int s = 0; s < kStates; ++s) {
    const real* end = states_before(size.steps, a.initial[s], a.states[s], step_stride) + origin;
    for (int64_t row = 0; row < task.rows; ++row) {
      copy_row(end + row * row_stride, a.last[s] + origin + row * row_stride, dim);
    }
  }
}

static void forward(const ForwardArguments& a) {
  const Sizes& size = a.sizes;
  const int64_t matrix = size.dim * padded(size.dim), area = size.dim * size.dim;
  const bool pack_first = size.steps > 2;
  const int64_t matrices = kDensePairs * size.heads;
  Scratch packed(pack_first ? matrices * matrix : 0);
#pragma omp parallel num_threads(size.threads) if (worth_threads(size))
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < (pack_first ? matrices : 0); ++i) {
      pack(a.R + i * area, 1, size.dim, size.dim, size.dim, packed + i * matrix);
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < tiles(size) * size.heads; ++i) {
      run_forward(a, task_of(size, i), pack_first ? (const real*)packed : nullptr);
    }
  }
}

}  // namespace rnnc
