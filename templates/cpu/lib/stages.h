// The stages of a step: pointwise programs, and what units of a head exchange between them.
//
// The generated source defines kStageProducts and such, forward_stage and backward_stage.
#pragma once

#include <cmath>

#include "layout.h"

namespace rnnc {

// Numbers of a head from values of its units: sums in double, in the order of units.
class HeadValues {
 public:
  // `count` values per unit, at values + slots[i] * width.
  HeadValues(const real* values, const int* slots, int count, int64_t width, int64_t units)
      : values_(values), slots_(slots), count_(count), width_(width), units_(units) {}

  double total() const {
    double sum = 0;
    each([&](real value) { sum += value; });
    return sum;
  }

  double mean() const { return total() / ((double)count_ * (double)units_); }

  // The mean, and the mean of the squared distances from it. Of one value that is infinity: a norm
  // divides by it, and passes on no gradient.
  void moments(real* to) const {
    const double middle = mean();
    double squares = 0;
    each([&](real value) { squares += (value - middle) * (value - middle); });
    to[0] = (real)middle;
    const double count = (double)count_ * (double)units_;
    to[1] = count > 1 ? (real)(squares / count) : (real)INFINITY;
  }

  // The largest value, NaN if there is one, and how many units have it.
  void largest(real* to) const {
    real most = -INFINITY;
    each([&](real value) { most = value > most || value != value ? value : most; });
    double ties = 0;
    each([&](real value) { ties += value == most; });
    to[0] = most;
    to[1] = (real)ties;
  }

  // The sum of exp(x - m), and the largest value m.
  void softmax(real* to) const {
    real most[2];
    largest(most);
    double sum = 0;
    each([&](real value) { sum += exp(value - most[0]); });
    to[0] = (real)sum;
    to[1] = most[0];
  }

 private:
  template <class Body>
  void each(Body body) const {
    for (int i = 0; i < count_; ++i) {
      const real* const values = values_ + slots_[i] * width_;
      for (int64_t d = 0; d < units_; ++d) body(values[d]);
    }
  }

  const real* const values_;
  const int* const slots_;
  const int count_;
  const int64_t width_, units_;
};

static void add_statistic(const StageStatistic& statistic, const int* slots, const real* values,
                          int64_t width, int64_t units, real* to) {
  const HeadValues of(values, slots + statistic.first, statistic.count, width, units);
  switch (statistic.kind) {
    case StatisticKind::mean: to[statistic.to] = (real)of.mean(); break;
    case StatisticKind::total: to[statistic.to] = (real)of.total(); break;
    case StatisticKind::largest: of.largest(to + statistic.to); break;
    case StatisticKind::moments: of.moments(to + statistic.to); break;
    case StatisticKind::softmax: of.softmax(to + statistic.to); break;
  }
}

// A row of a step of the forward.
struct ForwardRow {
  real* gates;
  const real* before[kStates];
  real* after[kStates];
  real* kept;  // or null
};

class ForwardStages {
 public:
  ForwardStages(int64_t rows, int64_t width)
      : width_(width), rows_(rows, false), values_(rows * kValues * width),
        statistics_(rows * kStatistics) {}

  void set(int64_t number, real* gates, const real* const* before, real* const* after,
           int64_t offset, real* kept) {
    ForwardRow& row = rows_[number];
    row.gates = gates;
    row.kept = kept;
    for (int s = 0; s < kStates; ++s) {
      row.before[s] = before[s] + offset;
      row.after[s] = after[s] + offset;
    }
  }

  // multiply(product, values, stride) adds the products of a value of all rows to their gates.
  template <class Multiply>
  void run(int64_t count, const real* params, const real* diagonal, int64_t dim, int64_t units,
           Multiply multiply) {
    for (int stage = 0; stage < kForwardStages; ++stage) {
      exchange(stage, count, diagonal, units, multiply);
      for (int64_t i = 0; i < count; ++i) {
        forward_stage(stage, rows_[i].gates, rows_[i].before, rows_[i].after, params, values(i),
                      statistics(i), width_, rows_[i].kept, dim, units);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      if (rows_[i].kept == nullptr) continue;
      for (int k = 0; k < kSavedStatistics; ++k) {
        rows_[i].kept[kSaved * dim + k] = statistics(i)[kSavedStatistic[k]];
      }
    }
  }

 private:
  template <class Multiply>
  void exchange(int stage, int64_t count, const real* diagonal, int64_t units, Multiply multiply) {
    for (const StageProduct& product : kStageProducts) {
      if (product.stage != stage) continue;
      if (product.dense) {
        multiply(product, values(0) + product.value * width_, kValues * width_);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        add_product(diagonal + product.matrix * width_, values(i) + product.value * width_,
                    rows_[i].gates + product.gate * width_, units);
      }
    }
    for (const StageStatistic& statistic : kStageStatistics) {
      if (statistic.stage != stage) continue;
      for (int64_t i = 0; i < count; ++i) {
        add_statistic(statistic, kStatisticValues, values(i), width_, units, statistics(i));
      }
    }
  }

  real* values(int64_t row) { return values_ + row * kValues * width_; }
  real* statistics(int64_t row) { return statistics_ + row * kStatistics; }

  const int64_t width_;
  ScratchOf<ForwardRow> rows_;
  Scratch values_, statistics_;
};

// A row of a step of the backward.
struct BackwardRow {
  int64_t number, place;  // among the task's rows, and where the row begins in tensors over time
  const real* before[kStates];
  const real* after[kStates];
};

class BackwardStages {
 public:
  BackwardStages(int64_t rows, int64_t width)
      : width_(width), rows_(rows, false), values_(rows * kDValues * width), sums_(rows * kStageSums) {}

  void set(int64_t number, int64_t place, const real* const* before, const real* const* after,
           int64_t offset) {
    BackwardRow& row = rows_[count_++];
    row.number = number;
    row.place = place;
    for (int s = 0; s < kStates; ++s) {
      row.before[s] = before[s] + offset;
      row.after[s] = after[s] + offset;
    }
  }

  int64_t count() const { return count_; }
  const BackwardRow& row(int64_t place) { return rows_[place]; }
  void clear() { count_ = 0; }

  // run(stage, row, values, sums) runs a stage of a row; multiply(product, row, rows, to, stride)
  // adds products of rows that follow each other, multiply_diagonal(product, row, to) of one.
  template <class Run, class Multiply, class MultiplyDiagonal>
  void run(int64_t units, Run run, Multiply multiply, MultiplyDiagonal multiply_diagonal) {
    for (int stage = 0; stage < kBackwardStages; ++stage) {
      for (const StageProduct& product : kReturnedProducts) {
        if (product.stage == stage) back(product, multiply, multiply_diagonal);
      }
      for (const StageStatistic& statistic : kReturnedStatistics) {
        if (statistic.stage != stage) continue;
        for (int64_t i = 0; i < count_; ++i) {
          add_statistic(statistic, kReturnedValues, values(rows_[i].number), width_, units,
                        sums(rows_[i].number));
        }
      }
      for (int64_t i = 0; i < count_; ++i) {
        run(stage, rows_[i], values(rows_[i].number), sums(rows_[i].number));
      }
    }
  }

 private:
  template <class Multiply, class MultiplyDiagonal>
  void back(const StageProduct& product, Multiply multiply, MultiplyDiagonal multiply_diagonal) {
    for (int64_t i = 0; i < count_;) {
      real* const to = values(rows_[i].number) + product.value * width_;
      int64_t end = i + 1;
      while (end < count_ && rows_[end].number == rows_[end - 1].number + 1) ++end;
      for (int64_t row = i; row < end; ++row) {
        std::memset(to + (row - i) * kDValues * width_, 0, (size_t)width_ * sizeof(real));
        if (!product.dense) {
          multiply_diagonal(product, rows_[row], to + (row - i) * kDValues * width_);
        }
      }
      if (product.dense) multiply(product, rows_[i], end - i, to, kDValues * width_);
      i = end;
    }
  }

  real* values(int64_t row) { return values_ + row * kDValues * width_; }
  real* sums(int64_t row) { return sums_ + row * kStageSums; }

  const int64_t width_;
  int64_t count_ = 0;
  ScratchOf<BackwardRow> rows_;
  Scratch values_, sums_;
};

}  // namespace rnnc
