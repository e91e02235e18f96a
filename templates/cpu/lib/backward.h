// The recurrence, backward: for one head, some batch rows and some units, from the last step to the
// first.
#pragma once

#include "layout.h"
#include "product.h"
#include "together.h"

namespace rnnc {

class BackwardTask {
 public:
  BackwardTask(const BackwardArguments& a, const Task& task, const real* packed)
      : a_(a), task_(task), time_(a.sizes, task.head), packed_(packed), width_(padded(task.units)),
        row_stride_(a.sizes.heads * a.sizes.dim), step_stride_(a.sizes.batch * row_stride_),
        head_(task.first_row * row_stride_ + task.head * a.sizes.dim),
        origin_(head_ + task.first_unit), state_width_(task.rows * width_),
        diagonal_(kDiagonalPairs * width_), params_(kParams * width_),
        d_states_(kStates * state_width_), step_sums_(kSums * width_), sums_(kSums * width_) {
    load_units(a.R_diag, kDiagonalPairs, task, a.sizes, diagonal_, width_);
    load_units(a.params, kParams, task, a.sizes, params_, width_);
    for (int s = 0; s < kStates; ++s) {
      for (int64_t row = 0; row < task.rows && a.d_last[s] != nullptr; ++row) {
        copy_row(a.d_last[s] + origin_ + row * row_stride_, d_state(s, row), task.units);
      }
    }
  }

  // The gradients of the gates of a step, and what passes to the states before it but for matrices.
  void run_pointwise(int64_t step) {
    const int64_t units = task_.units, start = time_.at(step) * step_stride_;
    const real *before[kStates], *after[kStates];
    for (int s = 0; s < kStates; ++s) {
      before[s] = states_before(step, time_, a_.initial[s], a_.states[s], step_stride_) + origin_;
      after[s] = a_.states[s] + start + origin_;
    }
    std::memset(step_sums_, 0, (size_t)(kSums * width_) * sizeof(real));
    for (int64_t row = 0; row < task_.rows; ++row) {
      const int64_t offset = row * row_stride_, place = start + offset;
      for (int s = 0; s < kStates; ++s) {
        if (a_.d_states[s] != nullptr) {
          add_row(a_.d_states[s] + place + origin_, d_state(s, row), units);
        }
      }
      run_row(row, place, before, after, offset);
    }
    finish_rows();
  }

  // What passes to the states before the step through matrices, from the gates of all units.
  void run_products(int64_t step) {
    const int64_t dim = a_.sizes.dim;
    const real* d_gates = a_.d_gates + (time_.at(step) * step_stride_ + head_) * kGradients;
    for (int i = 0; i < kStatePairs && packed_ != nullptr; ++i) {
      const int p = kDenseOrder[i];
      const int64_t place = p * a_.sizes.heads + task_.head;
      multiply(d_gates + kDenseGate[p] * dim, row_stride_ * kGradients,
               packed_ + (place * padded(dim) + task_.first_unit) * dim, task_.rows, dim,
               task_.units, d_state(kDenseSource[p], 0), width_);
    }
  }

  // Copy the gradients of the initial states, and the sums.
  void finish() {
    for (int s = 0; s < kStates; ++s) {
      for (int64_t row = 0; row < task_.rows; ++row) {
        copy_row(d_state(s, row), a_.d_initial[s] + origin_ + row * row_stride_, task_.units);
      }
    }
    store_sums(0, kGradients, a_.d_bias);
    store_sums(kGradients, kParams, a_.d_params);
    store_sums(kGradients + kParams, kDiagonalPairs, a_.d_diagonal);
  }

 protected:
  static constexpr int kSums = kGradients + kParams + kDiagonalPairs;

  // One row of a step: `place` is where the step of the row begins in tensors over time, and the
  // states before and after it lie at an offset into an array of each state.
#ifdef RNNC_STAGES
  void run_row(int64_t row, int64_t place, const real* const* before, const real* const* after,
               int64_t offset) {
    stages_.set(row, place, before, after, offset);
  }

  // All stages of the rows that run a step, and the sums over rows.
  void finish_rows() {
    const int64_t dim = a_.sizes.dim;
    const auto run = [&](int stage, const BackwardRow& row, real* d_values, const real* sums) {
      real* const d_params = step_sums_ + kGradients * width_;
      const real* const kept = kept_of(row.place);
#ifdef RNNC_UNWEIGHTED
      load_unweighted(a_.unweighted, task_, row.place / step_stride_, task_.first_row + row.number,
                      inputs_, width_);
      const real* const inputs = inputs_;
#else
      const real* const inputs = nullptr;
#endif
      backward_stage(stage, kept, kept + kSaved * dim - task_.first_unit, row.before, row.after,
                     params_, inputs, d_values, sums, width_, d_state(0, row.number), state_width_,
                     d_gates_of(row.place), d_params, dim, task_.units);
    };
    const auto multiply = [&](const StageProduct& product, const BackwardRow& row, int64_t rows,
                              real* to, int64_t stride) {
      const int64_t matrix = product.matrix * a_.sizes.heads + task_.head;
      rnnc::multiply(d_gates_of(row.place) + product.gate * dim, row_stride_ * kGradients,
                     packed_ + matrix * padded(dim) * dim, rows, dim, task_.units, to, stride);
    };
    const auto multiply_diagonal = [&](const StageProduct& product, const BackwardRow& row, real* to) {
      const real* const d_gate = d_gates_of(row.place) + product.gate * dim;
      real* const d_diagonal = step_sums_ + (kGradients + kParams + product.matrix) * width_;
      add_product(d_gate, kept_of(row.place) + product.kept * dim, d_diagonal, task_.units);
      add_product(d_gate, diagonal_ + product.matrix * width_, to, task_.units);
    };
    stages_.run(task_.units, run, multiply, multiply_diagonal);
    for (int64_t i = 0; i < stages_.count(); ++i) {
      const BackwardRow& row = stages_.row(i);
      sum_row(row.number, d_gates_of(row.place), row.before, 0);
    }
    stages_.clear();
    add_row(step_sums_, (double*)sums_, kSums * width_);
  }

#else
  void run_row(int64_t row, int64_t place, const real* const* before, const real* const* after,
               int64_t offset) {
    const int64_t dim = a_.sizes.dim, units = task_.units;
    real* const d_params = step_sums_ + kGradients * width_;
    const real* kept = kept_of(place);
    real* d_gates = d_gates_of(place);
#ifdef RNNC_UNWEIGHTED
    load_unweighted(a_.unweighted, task_, place / step_stride_, task_.first_row + row, inputs_,
                    width_);
    backward_row(kept, before, after, offset, params_, width_, d_state(0, row), state_width_,
                 d_gates, d_params, dim, units, inputs_);
#else
    backward_row(kept, before, after, offset, params_, width_, d_state(0, row), state_width_,
                 d_gates, d_params, dim, units);
#endif
    sum_row(row, d_gates, before, offset);
  }

  void finish_rows() { add_row(step_sums_, (double*)sums_, kSums * width_); }
#endif

  // What the forward kept of a row, whose step begins at `place` in tensors over time.
  const real* kept_of(int64_t place) const {
    return a_.kept + kept_place(place + head_, a_.sizes.dim) + task_.first_unit;
  }

  // The gradients of its gates.
  real* d_gates_of(int64_t place) const {
    return a_.d_gates + (place + head_) * kGradients + task_.first_unit;
  }

  // Add a row to the sums over rows, and what passes to its states through diagonal weights.
  void sum_row(int64_t row, const real* d_gates, const real* const* before, int64_t offset) {
    const int64_t dim = a_.sizes.dim, units = task_.units;
    real* const d_bias = step_sums_;
    real* const d_diagonal = d_bias + (kGradients + kParams) * width_;
    for (int g = 0; g < kGradients; ++g) add_row(d_gates + g * dim, d_bias + g * width_, units);
    for (int i = 0; i < kStateDiagonals; ++i) {
      const int p = kDiagonalOrder[i];
      const real* d_gate = d_gates + kDiagonalGate[p] * dim;
      add_product(d_gate, before[kDiagonalSource[p]] + offset, d_diagonal + p * width_, units);
      add_product(d_gate, diagonal_ + p * width_, d_state(kDiagonalSource[p], row), units);
    }
  }

  real* d_state(int state, int64_t row) {
    return d_states_ + state * state_width_ + row * width_;
  }

  void store_sums(int first, int count, real* to) {
    for (int i = 0; i < count; ++i) {
      real* const row = to + ((task_.tile * count + i) * a_.sizes.heads + task_.head) * a_.sizes.dim +
                        task_.first_unit;
      for (int64_t d = 0; d < task_.units; ++d) row[d] = (real)sums_[(first + i) * width_ + d];
    }
  }

  const BackwardArguments& a_;
  const Task task_;
  const TimeOrder time_;
  const real* const packed_;
  const int64_t width_, row_stride_, step_stride_;
  const int64_t head_, origin_;  // of the head's units in the first row, and of the task's
  const int64_t state_width_;    // from one state to the next
  Scratch diagonal_, params_, d_states_;
  // Sums over rows and steps: of biases, params and diagonal weights. A step's rows are summed
  // first, and steps in double, so that long sequences cost no digits.
  Scratch step_sums_;
  ScratchOf<double> sums_;
#ifdef RNNC_STAGES
  BackwardStages stages_{task_.rows, width_};
#endif
#ifdef RNNC_UNWEIGHTED
  Scratch inputs_{kUnweighted * width_};  // of a row
#endif
};

template <class Runner, class Arguments>
RNNC_ONCE static void run_backward(const Arguments& a) {
  const Sizes& size = a.sizes;
  const int64_t panels = padded(size.dim) / kPanel, count = tasks(size);
  const int64_t to_pack = a.R != nullptr ? kDensePairs * size.heads * panels : 0;
  Scratch memory(to_pack * kPanel * size.dim, false);
  const real* packed = a.R != nullptr ? (const real*)memory : nullptr;
  StepBarrier barrier;
#pragma omp parallel num_threads(size.threads) if (worth_threads(size, a.R != nullptr))
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < to_pack; ++i) {
      const int64_t column = i % panels * kPanel, place = i / panels;
      const real* const matrix = matrix_of(a, place / size.heads, place % size.heads);
      pack_panel(matrix + column, size.dim, 1, size.dim, size.dim - column,
                 memory + i * kPanel * size.dim);
    }
    if (unit_parts(size) == 1) {
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < count; ++i) {
        Runner task(a, task_of(size, i), packed);
        for (int64_t step = size.steps - 1; step >= 0; --step) {
          task.run_pointwise(step);
          task.run_products(step);
        }
        task.finish();
      }
    } else {
      OwnTasks<Runner> own(a, packed);
      for (int64_t step = size.steps - 1; step >= 0; --step) {
        for (Runner& task : own) task.run_pointwise(step);
        barrier.wait(size.steps - step);  // for the gradients of the gates of all units
        for (Runner& task : own) task.run_products(step);
      }
      for (Runner& task : own) task.finish();
    }
  }
}

RNNC_INLINE void backward(const BackwardArguments& a) { run_backward<BackwardTask>(a); }

}  // namespace rnnc
