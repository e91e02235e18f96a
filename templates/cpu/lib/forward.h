// The recurrence, forward: for one head, some batch rows and some units, all steps.
#pragma once

#include "dots.h"
#include "layout.h"
#include "product.h"
#include "together.h"

namespace rnnc {

// Whether no gate has two matrices, whose products would be added in another order.
constexpr bool order_is_free() {
  for (int i = 0; i < kDensePairs; ++i) {
    for (int j = 0; j < i; ++j) {
      if (kDenseGate[i] == kDenseGate[j]) return false;
    }
  }
  return true;
}
constexpr bool kDenseOrderIsFree = order_is_free();

// Matrices in panels; null for those that are not packed.
struct Packed {
  const real *R, *W;
};

class ForwardTask {
 public:
  // packed: null where packing the matrices would cost more than it saves.
  ForwardTask(const ForwardArguments& a, const Task& task, const Packed& packed)
      : a_(a), task_(task), time_(a.sizes, task.head), packed_(packed), width_(padded(task.units)),
        small_(small(a, task)), block_rows_(rows_at_once(a, task)), block_steps_(steps_at_once(a, task)),
        bias_(kGates * width_), diagonal_(kDiagonalPairs * width_), params_(kParams * width_),
        gates_(block_steps_ * block_rows_ * kGates * width_),
        features_(block_steps_ > 1 ? block_steps_ * block_rows_ * a.features : 0, false) {
    for (int i = 0; i < kBiasGates && a.b != nullptr; ++i) {
      load_units(a.b + i * a.sizes.heads * a.sizes.dim, 1, task, a.sizes,
                 bias_ + kBias[i] * width_, width_);
    }
    load_units(a.R_diag, kDiagonalPairs, task, a.sizes, diagonal_, width_);
    load_units(a.params, kParams, task, a.sizes, params_, width_);
  }

  void run(int64_t step) {
    for (int64_t row = 0; row < task_.rows; row += block_rows_) {
      run_rows(step, task_.first_row + row, smaller(block_rows_, task_.rows - row));
    }
  }

  // Copy the states after the last step.
  void finish() {
    const int64_t steps = a_.sizes.steps, row_stride = a_.sizes.heads * a_.sizes.dim;
    for (int s = 0; s < kStates; ++s) {
      if (a_.last[s] == nullptr) continue;
      const real* end =
          states_before(steps, time_, a_.initial[s], a_.states[s], a_.step_strides[s]);
      if (end == a_.last[s]) continue;
      for (int64_t row = task_.first_row; row < task_.first_row + task_.rows; ++row) {
        const int64_t place = row * row_stride + first_value();
        copy_row(end + place, a_.last[s] + place, task_.units);
      }
    }
  }

 protected:
  // Small matrices stay in a cache while blocks of rows pass, whose gates stay in a smaller one.
  static bool small(const ForwardArguments& a, const Task& task) {
    const int64_t of_W = a.W != nullptr ? kInputGates * a.features : 0;
    const int64_t values = (kDensePairs * a.sizes.dim + of_W) * padded(task.units);
    return values * (int64_t)sizeof(real) <= (a.W != nullptr ? 512 : 256) * 1024;
  }

  static int64_t rows_at_once(const ForwardArguments& a, const Task& task) {
    // With W, panels in the L1 cache serve more rows.
    const int64_t rows = a.W != nullptr ? 32 : 8;
    return small(a, task) ? smaller(rows, task.rows) : task.rows;
  }

  // W is read once for the features of so many steps.
  static int64_t steps_at_once(const ForwardArguments& a, const Task& task) {
    if (a.W == nullptr || rows_at_once(a, task) < task.rows) return 1;
    const int64_t rows = small(a, task) ? 16 : 64;
    return smaller(task.rows < rows ? rows / task.rows : 1, a.sizes.steps);
  }

  int64_t first_value() const { return task_.head * a_.sizes.dim + task_.first_unit; }

  void run_rows(int64_t step, int64_t first_row, int64_t rows) {
    const Sizes& size = a_.sizes;
    const int64_t dim = size.dim, row_stride = size.heads * dim;
    const int64_t origin = first_row * row_stride + task_.head * dim;  // of the head's units
    const int64_t start = time_.at(step) * size.batch * row_stride + origin;
    const real *before[kStates], *sources[kStates];
    real* after[kStates];
    for (int s = 0; s < kStates; ++s) {
      const int64_t stride = a_.step_strides[s];
      sources[s] = states_before(step, time_, a_.initial[s], a_.states[s], stride) + origin;
      before[s] = sources[s] + task_.first_unit;
      after[s] = a_.states[s] + time_.at(step) * stride + origin + task_.first_unit;
    }
    real* const all_gates = gates_of_inputs(step, first_row, rows);
    const Reading reading = {!small_, kDenseOrderIsFree && step % 2 > 0};
    for (int i = 0; i < kStatePairs; ++i) {
      const int p = kDenseOrder[reading.backwards ? kStatePairs - 1 - i : i];
      add_dense(p, sources[kDenseSource[p]], row_stride, first_row, rows,
                all_gates + kDenseGate[p] * width_, reading);
    }
    for (int64_t row = 0; row < rows; ++row) {
      real* gates = all_gates + row * kGates * width_;
      const int64_t offset = row * row_stride;
      for (int i = 0; i < kStateDiagonals; ++i) {
        const int p = kDiagonalOrder[i];
        add_product(diagonal_ + p * width_, before[kDiagonalSource[p]] + offset,
                    gates + kDiagonalGate[p] * width_, task_.units);
      }
      real* const kept =
          a_.kept != nullptr ? a_.kept + kept_place(start + offset, dim) + task_.first_unit : nullptr;
      run_pointwise(row, gates, before, after, offset, kept);
    }
    finish_rows(rows, all_gates);
  }

#ifdef RNNC_STAGES
  void run_pointwise(int64_t row, real* gates, const real* const* before, real* const* after,
                     int64_t offset, real* kept) {
    stages_.set(row, gates, before, after, offset, kept);
  }

  // All stages of rows of a step.
  void finish_rows(int64_t rows, real* gates) {
    const auto multiply = [&](const StageProduct& product, const real* values, int64_t stride) {
      add_dense(product.matrix, values, stride, 0, rows, gates + product.gate * width_);
    };
    stages_.run(rows, params_, diagonal_, a_.sizes.dim, task_.units, multiply);
  }
#else
  void run_pointwise(int64_t, real* gates, const real* const* before, real* const* after,
                     int64_t offset, real* kept) {
    const int64_t dim = a_.sizes.dim;
    if (kept != nullptr) {
      forward_row<true>(gates, before, after, offset, params_, width_, kept, dim, task_.units);
    } else {
      forward_row<false>(gates, before, after, offset, params_, width_, nullptr, dim,
                         task_.units);
    }
  }

  void finish_rows(int64_t, real*) {}
#endif

  // gates[row][gate][unit] of rows of a step, before the products with states.
  real* gates_of_inputs(int64_t step, int64_t first_row, int64_t rows) {
    if (a_.W == nullptr) {
      load_inputs(time_.at(step), first_row, rows, gates_);
      return gates_;
    }
    const int64_t place = step % block_steps_;
    if (place == 0) multiply_features(step, first_row, rows);
    return gates_ + place * rows * kGates * width_;
  }

  // The same of a block of steps, the products of features and W.
  void multiply_features(int64_t step, int64_t first_row, int64_t rows) {
    const int64_t steps = smaller(block_steps_, a_.sizes.steps - step), features = a_.features;
    const real* left = a_.x + time_.at(step) * a_.x_strides[0] + first_row * a_.x_strides[1];
    int64_t left_stride = a_.x_strides[1];
    if (steps > 1) {
      for (int64_t i = 0; i < steps * rows; ++i) {
        copy_row(a_.x + time_.at(step + i / rows) * a_.x_strides[0] +
                     (first_row + i % rows) * a_.x_strides[1],
                 features_ + i * features, features);
      }
      left = features_, left_stride = features;
    }
    for (int64_t i = 0; i < steps * rows; ++i) {
      copy_row(bias_ + kInputGates * width_, gates_ + (i * kGates + kInputGates) * width_,
               (kGates - kInputGates) * width_);
    }
    for (int g = 0; g < kInputGates; ++g) {
      const int64_t place = g * a_.sizes.heads + task_.head;
      multiply(left, left_stride,
               packed_.W + (place * padded(a_.sizes.dim) + task_.first_unit) * features,
               steps * rows, features, task_.units, gates_ + g * width_, kGates * width_, {!small_},
               bias_ + g * width_);
    }
  }

  // gates[row][gate][unit] = bias + input share, or the cell's input.
  void load_inputs(int64_t step, int64_t first_row, int64_t rows, real* gates) {
    const int64_t* strides = a_.wx_strides;
    const int64_t unit_stride = strides[3], gate_stride = strides[4];
    for (int64_t row = 0; row < rows; ++row) {
      real* out = gates + row * kGates * width_;
      copy_row(bias_ + kInputGates * width_, out + kInputGates * width_, (kGates - kInputGates) * width_);
#ifdef RNNC_UNWEIGHTED
      load_unweighted(a_.unweighted, task_, step, first_row + row,
                      out + (kGates - kUnweighted) * width_, width_);
#endif
      const real* wx = a_.wx + step * strides[0] + (first_row + row) * strides[1] +
                       task_.head * strides[2] + task_.first_unit * unit_stride;
      if (unit_stride == 1) {
        for (int g = 0; g < kInputGates; ++g) {
          const real* bias = bias_ + g * width_;
          sum_rows(bias, wx + g * gate_stride, out + g * width_, task_.units);
        }
      } else {
        for (int64_t d = 0; d < task_.units; ++d) {
          for (int g = 0; g < kInputGates; ++g) {
            out[g * width_ + d] = bias_[g * width_ + d] + wx[d * unit_stride + g * gate_stride];
          }
        }
      }
    }
  }

  // Add the product of a dense pair to its gate; rows of the source are `row_stride` apart.
  void add_dense(int pair, const real* source, int64_t row_stride, int64_t first_row, int64_t rows,
                 real* gate, Reading reading = {}) {
    const Sizes& size = a_.sizes;
    const int64_t dim = size.dim;
    const int64_t place = pair * size.heads + task_.head;
    if (a_.product != nullptr) {
      const real* product = a_.product + first_row * a_.product_strides[0] +
                            pair * a_.product_strides[1] + task_.head * a_.product_strides[2] +
                            task_.first_unit;
      for (int64_t row = 0; row < rows; ++row) {
        add_row(product + row * a_.product_strides[0], gate + row * kGates * width_, task_.units);
      }
    } else if (packed_.R != nullptr) {
      multiply(source, row_stride, packed_.R + (place * padded(dim) + task_.first_unit) * dim, rows,
               dim, task_.units, gate, kGates * width_, reading);
    } else if (a_.R != nullptr) {
      const real* const matrix = matrix_of(a_, pair, task_.head) + task_.first_unit * dim;
      // Dot products take the compiler long, which only single steps are worth.
      if constexpr (kSingleStep) {
        add_dots(source, row_stride, matrix, rows, dim, task_.units, gate, kGates * width_);
      } else {
        multiply_unpacked(source, row_stride, matrix, rows, dim, task_.units, gate,
                          kGates * width_);
      }
    }
  }

  const ForwardArguments& a_;
  const Task task_;
  const TimeOrder time_;
  const Packed packed_;
  const int64_t width_;
  const bool small_;  // whether the task's matrices fit into a core's cache
  const int64_t block_rows_, block_steps_;
  Scratch bias_, diagonal_, params_, gates_;
  Scratch features_;  // of a block of steps, [steps][rows][features]
#ifdef RNNC_STAGES
  ForwardStages stages_{block_rows_, width_};
#endif
};

// All steps of a task that waits for no other.
template <class Runner, class Arguments>
RNNC_ONCE static void run_alone(const Arguments& a, int64_t index, const Packed& packed) {
  Runner task(a, task_of(a.sizes, index), packed);
  for (int64_t step = 0; step < a.sizes.steps; ++step) task.run(step);
  task.finish();
}

template <class Runner, class Arguments>
RNNC_ONCE static void run_forward(const Arguments& a) {
  const Sizes& size = a.sizes;
  const bool pack_first = (size.steps > 2 || a.W != nullptr) && a.product == nullptr;
  const int64_t panels = padded(size.dim) / kPanel, count = tasks(size);
  const int64_t of_R = pack_first ? kDensePairs * size.heads * panels : 0;
  const int64_t of_W = a.W != nullptr ? kInputGates * size.heads * panels : 0;
  const int64_t values_of_R = of_R * kPanel * size.dim, values_of_W = of_W * kPanel * a.features;
  KeptMemory memory(values_of_R + values_of_W);
  real *const R = of_R > 0 ? (real*)memory : nullptr, *const W = memory + values_of_R;
  const Packed packed = {R, W};
  const bool multiplies = a.product == nullptr || a.W != nullptr;
  if (of_R + of_W == 0 && size.steps == 1 && !worth_threads(size, multiplies)) {
    // Even a region of one thread takes time. There is nothing to pack.
    for (int64_t i = 0; i < count; ++i) run_alone<Runner>(a, i, packed);
    return;
  }
  StepBarrier barrier;
#pragma omp parallel num_threads(size.threads) if (worth_threads(size, multiplies))
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < of_R + of_W; ++i) {
      const bool in_R = i < of_R;
      const int64_t panel = in_R ? i : i - of_R, depth = in_R ? size.dim : a.features;
      const int64_t column = panel % panels * kPanel, place = panel / panels;
      const int64_t pair = place / size.heads, head = place % size.heads;
      const real* const matrix =
          in_R ? matrix_of(a, pair, head) : a.W + pair * a.W_strides[0] + head * a.W_strides[1];
      pack_panel(matrix + column * depth, 1, depth, depth, size.dim - column,
                 (in_R ? R : W) + panel * kPanel * depth);
    }
    if (unit_parts(size) == 1) {
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < count; ++i) run_alone<Runner>(a, i, packed);
    } else {
      OwnTasks<Runner> own(a, packed);
      for (int64_t step = 0; step < size.steps; ++step) {
        for (Runner& task : own) task.run(step);
        barrier.wait(step + 1);  // for all units of the new states
      }
      for (Runner& task : own) task.finish();
    }
  }
}

RNNC_INLINE void forward(const ForwardArguments& a) { run_forward<ForwardTask>(a); }

}  // namespace rnnc
