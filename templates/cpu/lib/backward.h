// The recurrence, backward: for one head and some batch rows, all steps from the last to the first.
#pragma once

#include "layout.h"
#include "product.h"

namespace rnnc {

static void run_backward(const BackwardArguments& a, const Task& task, const real* packed) {
  const Sizes& size = a.sizes;
  const int64_t dim = size.dim, width = padded(dim), matrix = dim * width;
  const int64_t row_stride = size.heads * dim;
  const int64_t step_stride = time_stride(size.batch * row_stride);
  const int64_t origin = task.first_row * row_stride + task.head * dim;
  const int64_t state_width = task.rows * width;  // from one state to the next
  Scratch diagonal(kDiagonalPairs * width), params(kParams * width);
  Scratch d_states(kStates * state_width);
  // Sums over rows and steps: of biases, params and diagonal weights. A step's rows are summed
  // first, and steps in double, so that long sequences cost no digits.
  constexpr int kSums = kGates + kParams + kDiagonalPairs;
  Scratch step_sums(kSums * width);
  ScratchOf<double> sums(kSums * width);
  real* const d_bias = step_sums;
  real* const d_params = d_bias + kGates * width;
  real* const d_diagonal = d_params + kParams * width;
  load_head(a.R_diag, kDiagonalPairs, task.head, size, diagonal, width);
  load_head(a.params, kParams, task.head, size, params, width);
  for (int s = 0; s < kStates; ++s) {
    for (int64_t row = 0; row < task.rows && a.d_last[s] != nullptr; ++row) {
      copy_row(a.d_last[s] + origin + row * row_stride, d_states + s * state_width + row * width,
               dim);
    }
  }
  const real *before[kStates], *after[kStates];
  for (int64_t step = size.steps - 1; step >= 0; --step) {
    for (int s = 0; s < kStates; ++s) {
      before[s] = states_before(step, a.initial[s], a.states[s], step_stride) + origin;
      after[s] = a.states[s] + step * step_stride + origin;
    }
    std::memset(step_sums, 0, (size_t)(kSums * width) * sizeof(real));
    real* const d_gates = a.d_gates + (step * step_stride + origin) * kGates;
    for (int64_t row = 0; row < task.rows; ++row) {
      const int64_t offset = row * row_stride, place = step * step_stride + origin + offset;
      for (int s = 0; s < kStates; ++s) {
        if (a.d_states[s] != nullptr) {
          add_row(a.d_states[s] + place, d_states + s * state_width + row * width, dim);
        }
      }
      real* d_gate_row = d_gates + offset * kGates;
      backward_row(a.kept + place * kSaved, before, after, offset, params, width,
                   d_states + row * width, state_width, d_gate_row, d_params, dim);
      for (int g = 0; g < kGates; ++g) add_row(d_gate_row + g * dim, d_bias + g * width, dim);
      for (int i = 0; i < kDiagonalPairs; ++i) {
        const int p = kDiagonalOrder[i];
        const real* d_gate = d_gate_row + kDiagonalGate[p] * dim;
        real* d_source = d_states + kDiagonalSource[p] * state_width + row * width;
        add_product(d_gate, before[kDiagonalSource[p]] + offset, d_diagonal + p * width, dim);
        add_product(d_gate, diagonal + p * width, d_source, dim);
      }
    }
    add_row(step_sums, (double*)sums, kSums * width);
    for (int i = 0; i < kDensePairs; ++i) {
      const int p = kDenseOrder[i];
      multiply(d_gates + kDenseGate[p] * dim, row_stride * kGates,
               packed + (p * size.heads + task.head) * matrix, task.rows, dim, dim,
               d_states + kDenseSource[p] * state_width, width);
    }
  }
  for (int s = 0; s < kStates; ++s) {
    for (int64_t row = 0; row < task.rows; ++row) {
      copy_row(d_states + s * state_width + row * width,
               a.d_initial[s] + origin + row * row_stride, dim);
    }
  }
  const auto store_sums = [&](int first, int count, real* to) {
    for (int i = 0; i < count; ++i) {
      real* const row = to + ((task.tile * count + i) * size.heads + task.head) * dim;
      for (int64_t d = 0; d < dim; ++d) row[d] = (real)sums[(first + i) * width + d];
    }
  };
  store_sums(0, kGates, a.d_bias);
  store_sums(kGates, kParams, a.d_params);
  store_sums(kGates + kParams, kDiagonalPairs, a.d_diagonal);
}

static void backward(const BackwardArguments& a) {
  const Sizes& size = a.sizes;
  const int64_t matrix = size.dim * padded(size.dim), area = size.dim * size.dim;
  Scratch packed(kDensePairs * size.heads * matrix);
#pragma omp parallel num_threads(size.threads) if (worth_threads(size))
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < kDensePairs * size.heads; ++i) {
      pack(a.R + i * area, size.dim, 1, size.dim, size.dim, packed + i * matrix);
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < tiles(size) * size.heads; ++i) {
      run_backward(a, task_of(size, i), packed);
    }
  }
}

}  // namespace rnnc
