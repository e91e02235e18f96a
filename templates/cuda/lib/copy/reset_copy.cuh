// ResetCopy: copies of what rows may restart from before a step, where that differs between steps,
// from global to shared memory, several steps ahead.
//
// Each step has a copy, whether a row restarts or not: a test would need a branch, and a copy on
// demand would wait for a round trip to memory, which is longer than a step. The copies belong to
// the cp.async group of the step's inputs. Without kResetsAhead nothing here does anything.
#pragma once

#include "lib/copy/tensors_copy.cuh"

namespace rnnc {

// All states of the units and rows of `Rows`, copied by `threads` threads.
template <class Plan, class Rows, int threads>
struct ResetCopy : TensorsCopy<Rows, kResetsAhead ? Cell::kStates : 0, threads> {
  using Copy = TensorsCopy<Rows, kResetsAhead ? Cell::kStates : 0, threads>;

  // Copies of step t come first; other arguments are as in TensorsCopy.
  template <typename Arguments>
  RNNC_MEMBER void start(const Arguments& a, const TimeOrder& time, int t, int thread, int64 head,
                         int first_unit, int64 first_row, int row_step) {
    if (!kResetsAhead) return;
    Copy::start(
        a, thread, first_unit, first_row, row_step,
        [&](int state, int64 row) {
          return reset_value(a, state, time.at(t), row, head * Plan::kHeadDim, time.reversed);
        },
        [&](int state) { return time.stride(a.masks.reset_time[state]); });
  }
  static RNNC_MEMBER real read(const char* stage, int state, int offset_bytes) {
    return kResetsAhead ? Copy::read(stage, state, offset_bytes)[0] : real(0);
  }
};

// Loads those of one item a step before they are needed, for kernels whose step is longer than a
// round trip to L2.
struct ResetLoad {
  Vec<Element, 1> value[Cell::kStates];

  // Of state s before step t. `ahead` steps further is the step whose values L2 shall have next; 0:
  // none.
  template <typename Arguments>
  RNNC_MEMBER void load(const Arguments& a, const TimeOrder& time, int s, int64 t, int64 row,
                        int64 unit, int64 ahead) {
    if (!kResetsAhead) return;
    const Element* const from = reset_value(a, s, time.at(t), row, unit, time.reversed);
    value[s].load(from);
    if (ahead) prefetch_l2(from + time.stride(a.masks.reset_time[s]) * ahead);
  }
  RNNC_MEMBER real operator[](int s) const { return kResetsAhead ? value[s][0] : real(0); }
};

}  // namespace rnnc
