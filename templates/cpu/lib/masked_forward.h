// The recurrence, forward, where rows have lengths of their own or resets.
#pragma once

#include "forward.h"
#include "masks.h"

namespace rnnc {

class MaskedForwardTask : public ForwardTask {
 public:
  MaskedForwardTask(const MaskedForwardArguments& a, const Task& task, const Packed& packed)
      : ForwardTask(a, task, packed), masks_(a.masks, a.sizes, time_, task.head),
        running_(task.rows, false), sources_(kStates * block_rows_ * a.sizes.dim) {}

  // The rows that run the step are computed in blocks, whichever rows lie between them.
  void run(int64_t step) {
    int64_t count = 0;
    for (int64_t row = task_.first_row; row < task_.first_row + task_.rows; ++row) {
      if (masks_.at(step, row) == kHold) {
        hold(step, row);
      } else {
        running_[count++] = row;
      }
    }
    for (int64_t i = 0; i < count; i += block_rows_) {
      const int64_t rows = smaller(block_rows_, count - i);
      if (in_place(step, running_ + i, rows)) {
        run_rows(step, running_[i], rows);
      } else {
        run_gathered(step, running_ + i, rows);
      }
    }
  }

  // Copy the states after the last step that each row runs.
  void finish() {
    const Sizes& size = a_.sizes;
    for (int64_t row = task_.first_row; row < task_.first_row + task_.rows; ++row) {
      int64_t steps = size.steps;
      while (steps > 0 && masks_.at(steps - 1, row) == kHold) --steps;
      const int64_t place = row * size.heads * size.dim + first_value();
      for (int s = 0; s < kStates; ++s) {
        if (a_.last[s] == nullptr) continue;
        const real* end = states_before(steps, time_, a_.initial[s], a_.states[s], step_stride());
        copy_row(end + place, a_.last[s] + place, task_.units);
      }
    }
  }

 private:
  int64_t step_stride() const { return a_.sizes.batch * a_.sizes.heads * a_.sizes.dim; }

  // Where the task's units of a row begin in tensors over time.
  int64_t place(int64_t step, int64_t row) const {
    return time_.at(step) * step_stride() + row * a_.sizes.heads * a_.sizes.dim + first_value();
  }

  real* kept(int64_t step, int64_t row) const {
    if (a_.kept == nullptr) return nullptr;
    return a_.kept + kept_place(place(step, row) - task_.first_unit, a_.sizes.dim) + task_.first_unit;
  }

  void hold(int64_t step, int64_t row) {
    const size_t bytes = (size_t)task_.units * sizeof(real);
    for (int s = 0; s < kStates; ++s) std::memset(a_.states[s] + place(step, row), 0, bytes);
    for (int i = 0; i < kSaved && a_.kept != nullptr; ++i) {
      std::memset(kept(step, row) + i * a_.sizes.dim, 0, bytes);
    }
  }

  // Whether rows follow each other and all run from the states after the step before it.
  bool in_place(int64_t step, const int64_t* rows, int64_t count) const {
    if (step == 0 || rows[count - 1] - rows[0] != count - 1) return false;
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t how = masks_.at(step, rows[i]);
      if (how == kRestart || how == kFirst) return false;
    }
    return true;
  }

  void run_gathered(int64_t step, const int64_t* rows, int64_t count) {
    const int64_t dim = a_.sizes.dim;
    for (int64_t i = 0; i < count; ++i) {
      for (int s = 0; s < kStates; ++s) {
        copy_row(masks_.before(step, rows[i], s, a_.initial[s], a_.states[s]), source(s, i), dim);
      }
      load_inputs(time_.at(step), rows[i], 1, gates_ + i * kGates * width_);
    }
    for (int i = 0; i < kStatePairs; ++i) {
      const int p = kDenseOrder[i];
      add_dense(p, source(kDenseSource[p], 0), dim, 0, count, gates_ + kDenseGate[p] * width_);
    }
    for (int64_t i = 0; i < count; ++i) {
      real* gates = gates_ + i * kGates * width_;
      const real* before[kStates];
      real* after[kStates];
      for (int s = 0; s < kStates; ++s) {
        before[s] = source(s, i) + task_.first_unit;
        after[s] = a_.states[s] + place(step, rows[i]);
      }
      for (int d = 0; d < kStateDiagonals; ++d) {
        const int p = kDiagonalOrder[d];
        add_product(diagonal_ + p * width_, before[kDiagonalSource[p]],
                    gates + kDiagonalGate[p] * width_, task_.units);
      }
      run_pointwise(i, gates, before, after, 0, kept(step, rows[i]));
    }
    finish_rows(count, gates_);
  }

  // The states before a step of the gathered rows, [kStates][block_rows_][dim].
  real* source(int state, int64_t row) {
    return sources_ + (state * block_rows_ + row) * a_.sizes.dim;
  }

  const HeadMasks masks_;
  ScratchOf<int64_t> running_;
  Scratch sources_;
};

}  // namespace rnnc
