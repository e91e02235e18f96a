// The recurrence, backward, where rows have lengths of their own or resets.
#pragma once

#include "backward.h"
#include "masks.h"

namespace rnnc {

class MaskedBackwardTask : public BackwardTask {
 public:
  MaskedBackwardTask(const MaskedBackwardArguments& a, const Task& task, const real* packed)
      : BackwardTask(a, task, packed), masks_(a.masks, a.sizes, time_, task.head),
        d_reset_(a.masks.d_reset) {}

  void run_pointwise(int64_t step) {
    const int64_t dim = a_.sizes.dim, units = task_.units;
    const int64_t start = time_.at(step) * step_stride_;
    std::memset(step_sums_, 0, (size_t)(kSums * width_) * sizeof(real));
    for (int64_t row = 0; row < task_.rows; ++row) {
      const int64_t place = start + row * row_stride_;
      if (how(step, row) == kHold) {
        real* d_gates = a_.d_gates + (place + head_) * kGradients + task_.first_unit;
        for (int g = 0; g < kGradients; ++g) {
          std::memset(d_gates + g * dim, 0, (size_t)units * sizeof(real));
        }
        continue;
      }
      const real *before[kStates], *after[kStates];
      for (int s = 0; s < kStates; ++s) {
        before[s] = masks_.before(step, task_.first_row + row, s, a_.initial[s], a_.states[s]) +
                    task_.first_unit;
        after[s] = a_.states[s] + place + origin_;
        if (a_.d_states[s] != nullptr) {
          add_row(a_.d_states[s] + place + origin_, d_state(s, row), units);
        }
      }
      run_row(row, place, before, after, 0);
    }
    finish_rows();
  }

  // What passes to the states before the step through matrices; where they were reset, it goes to
  // the reset values.
  void run_products(int64_t step) {
    const int64_t dim = a_.sizes.dim;
    int64_t row = 0;
    while (row < task_.rows) {
      if (how(step, row) == kHold) {
        ++row;
        continue;
      }
      int64_t end = row + 1;
      while (end < task_.rows && how(step, end) != kHold) ++end;
      const real* d_gates =
          a_.d_gates + (time_.at(step) * step_stride_ + head_ + row * row_stride_) * kGradients;
      for (int i = 0; i < kStatePairs && packed_ != nullptr; ++i) {
        const int p = kDenseOrder[i];
        const int64_t place = p * a_.sizes.heads + task_.head;
        multiply(d_gates + kDenseGate[p] * dim, row_stride_ * kGradients,
                 packed_ + (place * padded(dim) + task_.first_unit) * dim, end - row, dim,
                 task_.units, d_state(kDenseSource[p], row), width_);
      }
      row = end;
    }
    for (row = 0; row < task_.rows; ++row) {
      if (how(step, row) == kRestart) leave_at_reset(row);
    }
  }

 private:
  uint8_t how(int64_t step, int64_t row) const { return masks_.at(step, task_.first_row + row); }

  void leave_at_reset(int64_t row) {
    for (int s = 0; s < kStates; ++s) {
      real* const d_before = d_state(s, row);
      if (d_reset_[s] != nullptr) {
        add_row(d_before, d_reset_[s] + origin_ + row * row_stride_, task_.units);
      }
      std::memset(d_before, 0, (size_t)task_.units * sizeof(real));
    }
  }

  const HeadMasks masks_;
  real* const* const d_reset_;
};

}  // namespace rnnc
