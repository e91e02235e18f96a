// ForwardMasks: how a thread's items take a step of the forward.
//
// The states that a thread has after a step are those that the next step begins from: reset values
// already, if it starts anew. So what a thread publishes for the products needs no second pass. What
// it stores for the step lies beside them.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"
#include "lib/ptx/launder.cuh"

namespace rnnc {

#ifdef RNNC_MASKED

// Of `rows` batch rows of `units` units.
template <int units, int rows>
struct ForwardMasks {
  int row[rows], unit[units];  // in the batch; in [N, D]
  u32 now[rows], next[rows];   // how the rows take this step and the next one
  MaskWalk walk[rows];
  States reset[units][rows];   // what the next step may begin from
  States stored[units][rows];  // the results of this step
  bool vary;                   // reset values differ between steps

  RNNC_MEMBER void place_row(int j, int64 batch_row) { row[j] = static_cast<int>(batch_row); }
  RNNC_MEMBER void place_unit(int i, int64 plane_unit) { unit[i] = static_cast<int>(plane_unit); }

  // Before step t, in a kernel that runs no other step.
  template <typename Arguments>
  RNNC_MEMBER void begin_single(const Arguments& a, const TimeOrder& time, int64 t) {
    vary = resets_vary(a);
    repeat<rows>([&](int j) {
      now[j] = t < a.steps ? load_mask(a, time.at(t), row[j]) : kRun;
      next[j] = t + 1 < a.steps ? load_mask(a, time.at(t + 1), row[j]) : kRun;
      repeat<units>([&](int i) { load_reset(i, j, a, time.at(t + 1)); });
    });
  }
  // Before the first of all steps.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int steps) {
    vary = resets_vary(a);
    repeat<rows>([&](int j) {
      now[j] = next[j] = kRun;
      if (steps > 0) now[j] = walk[j].begin(a, time.at(0), time.stride(1), row[j]);
      if (steps > 1) next[j] = walk[j].next(a, time.at(1), time.stride(1), row[j]);
      repeat<units>([&](int i) { load_reset(i, j, a, time.at(1)); });
    });
  }
  // After `begin`: replaces initial states that the first step does not begin from.
  template <typename Arguments>
  RNNC_MEMBER void begin_states(int i, int j, const Arguments& a, const TimeOrder& time,
                                States& state) const {
    if (now[j] != kRestart) return;
    repeat<Cell::kStates>(
        [&](int s) { state[s] = to_real(*reset_value(a, s, time.at(0), row[j], unit[i])); });
  }

  // Of the next step, at place t; values that do not differ between steps are loaded once.
  template <typename Arguments>
  RNNC_MEMBER void load_reset(int i, int j, const Arguments& a, int64 t) {
    if (vary && next[j] != kRestart) return;
    repeat<Cell::kStates>(
        [&](int s) { reset[i][j][s] = to_real(*reset_value(a, s, t, row[j], unit[i])); });
  }
  // Once per step, well before `select`: loads what the step after step t may begin from, if it
  // differs between steps.
  template <typename Arguments>
  RNNC_MEMBER void ahead(const Arguments& a, const TimeOrder& time, int t) {
    if (!vary) return;
    // Laundered: otherwise the compiler would compute addresses in every step.
    const int64 place = launder(time.at(t + 1));
    repeat<units>([&](int i) { repeat<rows>([&](int j) { load_reset(i, j, a, place); }); });
  }
  // From the states after the step, if the row runs it: what is stored, and what comes next.
  RNNC_MEMBER void select(int i, int j, States& next_state, const States& state) {
    repeat<Cell::kStates>([&](int s) {
      const bool holds = now[j] == kHold;
      stored[i][j][s] = holds ? real(0) : next_state[s];
      const real kept = holds ? state[s] : next_state[s];
      next_state[s] = next[j] == kRestart ? reset[i][j][s] : kept;
    });
  }
  // After step t.
  template <typename Arguments>
  RNNC_MEMBER void advance(const Arguments& a, const TimeOrder& time, int t, int steps) {
    assign(now, next);
    repeat<rows>([&](int j) {
      next[j] = kRun;
      if (t + 2 < steps) next[j] = walk[j].next(a, time.at(t + 2), time.stride(1), row[j]);
    });
  }

  RNNC_MEMBER const States& results(int i, int j, const States&) const { return stored[i][j]; }
  // Results of a step that no row of the tile runs.
  RNNC_MEMBER void clear() {
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) {
        repeat<Cell::kStates>([&](int s) { stored[i][j][s] = 0; });
      });
    });
  }
};

#else

template <int units, int rows>
struct ForwardMasks {
  RNNC_MEMBER void place_row(int, int64) {}
  RNNC_MEMBER void place_unit(int, int64) {}
  template <typename Arguments>
  RNNC_MEMBER void begin_single(const Arguments&, const TimeOrder&, int64) {}
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments&, const TimeOrder&, int) {}
  template <typename Arguments>
  RNNC_MEMBER void begin_states(int, int, const Arguments&, const TimeOrder&, const States&) const {
  }
  template <typename Arguments>
  RNNC_MEMBER void ahead(const Arguments&, const TimeOrder&, int) {}
  RNNC_MEMBER void select(int, int, const States&, const States&) {}
  template <typename Arguments>
  RNNC_MEMBER void advance(const Arguments&, const TimeOrder&, int, int) {}
  RNNC_MEMBER const States& results(int, int, const States& state) const { return state; }
  RNNC_MEMBER void clear() {}
};

#endif

}  // namespace rnnc
