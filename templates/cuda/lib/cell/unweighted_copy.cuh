// UnweightedCopy: copies of what `Unweighted` reads, several steps ahead.
//
// A load that is issued one step ahead is not there in time: a step of a block takes less than a
// round trip to L2. So values are copied into shared memory, in as many stages as a block has for
// wx. Rows whose units are contiguous are copied as those of states are, by few wide accesses that
// all threads share (kUnweightedRows). A tensor of any other strides, which may have one value for
// all units, is copied value by value.
#pragma once

#include "lib/cell/unweighted.cuh"
#include "lib/copy/tensors_copy.cuh"

namespace rnnc {

#ifdef RNNC_UNWEIGHTED

// The distance from a step to the one that runs after it, or in a backward before it, in elements.
template <typename Arguments>
RNNC_INLINE int64 unweighted_stride(const Arguments& a, const TimeOrder& time, int k) {
  const int64 forth = time.stride(a.unweighted.time[k]);
  return l2_steps_ahead(a) > 0 ? forth : -forth;
}

// `Rows` is a RowCopy or WarpCopy of one element per unit. Groups of `copiers` among the `threads`
// threads that have items, all threads of a block or a warp, copy and read rows of their own.
template <class Rows, int copiers, int units, int rows, int threads, int stages>
class UnweightedRowsCopy {
  using Copy = TensorsCopy<Rows, Cell::kUnweighted, copiers>;
  static constexpr int kStageBytes = threads / copiers * Copy::kBytes;

 public:
  static constexpr int kBytes = stages * kStageBytes;

  // From step t on; `to` is the first byte of the stages. The group's units begin at first_unit of
  // the head; its rows are at the places first_row, first_row + row_step, ….
  template <typename Arguments>
  RNNC_MEMBER void start(const Unweighted<units, rows>& of, const Arguments& a,
                         const TimeOrder& time, int64 t, char* to, int thread, int first_unit,
                         int64 first_row, int row_step) {
    stages_ = to + thread / copiers * Copy::kBytes;
    const UnweightedArguments& given = a.unweighted;
    copy_.start(
        a, thread % copiers, first_unit, first_row, row_step,
        [&](int k, int64 row) {
          return given.tensor[k] + time.at(t) * given.time[k] + of.head * given.head[k] +
                 row * given.row[k];
        },
        [&](int k) { return unweighted_stride(a, time, k); });
  }
  // Copies the next step's values; the caller commits the group of copies.
  template <typename Arguments>
  RNNC_MEMBER void issue(const Arguments&, const TimeOrder&, int stage) {
    copy_.issue(stages_ + stage * kStageBytes);
  }
  // Gives `to` the values of the next step, whose copies have come into a stage.
  template <typename Arguments>
  RNNC_MEMBER void receive(Unweighted<units, rows>& to, const Arguments&, const TimeOrder&,
                           int stage) {
    to.read(stages_ + stage * kStageBytes, Rows::kBytes);
  }

 private:
  char* stages_;  // those of this thread's group
  Copy copy_;
};

// A thread copies its values into words of its own. No other thread reads them. A word of four
// bytes holds one value: that of two bytes is the half that its address tells.
template <class, int, int units, int rows, int threads, int stages>
class UnweightedWordsCopy {
  static_assert(sizeof(Element) <= 4, "kernels of float64 do not copy ahead");
  static constexpr int kWordBytes = 4;
  static constexpr int kStageBytes = kWordBytes * threads * units * rows * Cell::kUnweighted;

 public:
  static constexpr int kBytes = stages * kStageBytes;

  // Of the rows and units of `of`, from step t on; `to` is the first byte of the stages.
  template <typename Arguments>
  RNNC_MEMBER void start(const Unweighted<units, rows>& of, const Arguments& a,
                         const TimeOrder& time, int64 t, char* to, int thread, int, int64, int) {
    words_ = to + kWordBytes * thread;
    for_each([&](int i, int j, int k, int) {
      const UnweightedArguments& given = a.unweighted;
      const Element* const from = given.tensor[k] + time.at(t) * given.time[k] +
                                  of.head * given.head[k] + of.row[j] * given.row[k] +
                                  of.unit[i] * given.unit[k];
      from_[i][j][k] = reinterpret_cast<const char*>(from);
      received_[i][j][k] = static_cast<int>(reinterpret_cast<u64>(from));
    });
  }
  // Copies the next step's values; the caller commits the group of copies.
  template <typename Arguments>
  RNNC_MEMBER void issue(const Arguments& a, const TimeOrder& time, int stage) {
    for_each([&](int i, int j, int k, int word) {
      const char*& from = from_[i][j][k];
      cp_async<kWordBytes>(at(stage, word), from - (reinterpret_cast<u64>(from) & 2));
      from += step_bytes(a, time, k);
    });
  }
  // Gives `to` the values of the next step, whose copies have come into a stage.
  template <typename Arguments>
  RNNC_MEMBER void receive(Unweighted<units, rows>& to, const Arguments& a, const TimeOrder& time,
                           int stage) {
    for_each([&](int i, int j, int k, int word) {
      int& from = received_[i][j][k];
      to.value[i][j][k] = *reinterpret_cast<const Element*>(at(stage, word) + (from & 2));
      from += static_cast<int>(step_bytes(a, time, k));
    });
  }

 private:
  char* words_;  // of this thread, in the first stage
  const char* from_[units][rows][Cell::kUnweighted];
  int received_[units][rows][Cell::kUnweighted];  // the last bits of addresses

  template <typename Body>
  static RNNC_MEMBER void for_each(const Body& body) {
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) {
        repeat<Cell::kUnweighted>(
            [&](int k) { body(i, j, k, (i * rows + j) * Cell::kUnweighted + k); });
      });
    });
  }
  RNNC_MEMBER char* at(int stage, int word) const {
    return words_ + stage * kStageBytes + word * (kWordBytes * threads);
  }
  template <typename Arguments>
  static RNNC_MEMBER int64 step_bytes(const Arguments& a, const TimeOrder& time, int k) {
    return unweighted_stride(a, time, k) * int64{sizeof(Element)};
  }
};

template <class Rows, int copiers, int units, int rows, int threads, int stages>
using UnweightedCopy = Either<kUnweightedRows,
                              UnweightedRowsCopy<Rows, copiers, units, rows, threads, stages>,
                              UnweightedWordsCopy<Rows, copiers, units, rows, threads, stages>>;

#else

template <class, int, int units, int rows, int, int>
class UnweightedCopy {
 public:
  static constexpr int kBytes = 0;
  template <typename Arguments>
  RNNC_MEMBER void start(const Unweighted<units, rows>&, const Arguments&, const TimeOrder&, int64,
                         char*, int, int, int64, int) {}
  template <typename Arguments>
  RNNC_MEMBER void issue(const Arguments&, const TimeOrder&, int) {}
  template <typename Arguments>
  RNNC_MEMBER void receive(Unweighted<units, rows>&, const Arguments&, const TimeOrder&, int) {}
};

#endif

}  // namespace rnnc
