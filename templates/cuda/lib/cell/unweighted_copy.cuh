// UnweightedCopy: copies of what `Unweighted` reads, several steps ahead.
//
// A load that is issued one step ahead is not there in time: a step of a block takes less than a
// round trip to L2. So a thread copies its values into words of shared memory of its own, in as
// many stages as its block has for wx. No other thread reads them. A tensor may have any strides,
// so a word of four bytes holds one value: that of two bytes is the half that its address tells.
#pragma once

#include "lib/cell/unweighted.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc {

#ifdef RNNC_UNWEIGHTED

// By `threads` threads of a block, in `stages` stages, each of one step.
template <int units, int rows, int threads, int stages>
class UnweightedCopy {
  static_assert(sizeof(Element) <= 4, "kernels of float64 do not copy ahead");
  static constexpr int kWordBytes = 4;
  static constexpr int kStageBytes = kWordBytes * threads * units * rows * Cell::kUnweighted;

 public:
  static constexpr int kBytes = stages * kStageBytes;

  // Of the rows and units of `of`, from step t on; `to` is the first byte of the stages.
  template <typename Arguments>
  RNNC_MEMBER void start(const Unweighted<units, rows>& of, const Arguments& a,
                         const TimeOrder& time, int64 t, char* to, int thread) {
    words_ = to + kWordBytes * thread;
    for_each([&](int i, int j, int k, int) {
      const UnweightedArguments& given = a.unweighted;
      const Element* const from = given.tensor[k] + time.at(t) * given.time[k] +
                                  of.head * given.head[k] + of.row[j] * given.row[k] +
                                  of.unit[i] * given.unit[k];
      from_[i][j][k] = reinterpret_cast<const char*>(from);
    });
  }
  // Copies the next step's values, if it `exists`; the caller commits the group of copies.
  template <typename Arguments>
  RNNC_MEMBER void issue(const Arguments& a, const TimeOrder& time, bool exists, int stage) {
    for_each([&](int i, int j, int k, int word) {
      const char*& from = from_[i][j][k];
      if (exists) {
        cp_async<kWordBytes>(at(stage, word), from - (reinterpret_cast<u64>(from) & 2));
      }
      from += step_bytes(a, time, k);
    });
  }
  // Gives `to` the values of a stage whose copies have come, which is `stages` steps behind the
  // next copy.
  template <typename Arguments>
  RNNC_MEMBER void receive(Unweighted<units, rows>& to, const Arguments& a, const TimeOrder& time,
                           int stage) const {
    for_each([&](int i, int j, int k, int word) {
      const int64 from =
          reinterpret_cast<int64>(from_[i][j][k]) - stages * step_bytes(a, time, k);
      const char* const value = at(stage, word) + (static_cast<int>(from) & 2);
      to.value[i][j][k] = *reinterpret_cast<const Element*>(value);
    });
  }

 private:
  char* words_;  // of this thread, in the first stage
  const char* from_[units][rows][Cell::kUnweighted];

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
    const int64 forth = time.stride(a.unweighted.time[k]) * int64{sizeof(Element)};
    return l2_steps_ahead(a) > 0 ? forth : -forth;
  }
};

#else

template <int units, int rows, int threads, int stages>
class UnweightedCopy {
 public:
  static constexpr int kBytes = 0;
  template <typename Arguments>
  RNNC_MEMBER void start(const Unweighted<units, rows>&, const Arguments&, const TimeOrder&, int64,
                         char*, int) {}
  template <typename Arguments>
  RNNC_MEMBER void issue(const Arguments&, const TimeOrder&, bool, int) {}
  template <typename Arguments>
  RNNC_MEMBER void receive(Unweighted<units, rows>&, const Arguments&, const TimeOrder&,
                           int) const {}
};

#endif

}  // namespace rnnc
