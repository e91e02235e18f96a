// BackwardMasks: how a thread's items take a step of the backward.
//
// The gradient of the states that a step begins from is complete once the product of the step has
// been added. It goes on to the step before, or ends here: at a restart it is added to the gradients
// of the reset values.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"
#include "lib/ptx/launder.cuh"

namespace rnnc {

#ifdef RNNC_MASKED

// Of `rows` batch rows of `units` units.
template <int units, int rows>
struct BackwardMasks {
  int row[rows], unit[units];   // in the batch; in [N, D]
  u32 now[rows];                // how the rows take this step
  MaskWalk walk[rows];
  bool restarted[rows];         // the step after this one
  States reset[units][rows];  // what this step may begin from
  bool vary;                  // reset values differ between steps

  RNNC_MEMBER void place_row(int j, int64 batch_row) { row[j] = static_cast<int>(batch_row); }
  RNNC_MEMBER void place_unit(int i, int64 plane_unit) { unit[i] = static_cast<int>(plane_unit); }

  // Before step t, in a kernel that runs no other step; or after all steps, if t is -1.
  template <typename Arguments>
  RNNC_MEMBER void begin_single(const Arguments& a, const TimeOrder& time, int64 t) {
    vary = resets_vary(a);
    repeat<rows>([&](int j) {
      restarted[j] = t + 1 < a.steps && load_mask(a, time.at(t + 1), row[j]) == kRestart;
      now[j] = t >= 0 ? load_mask(a, time.at(t), row[j]) : kRun;
      repeat<units>([&](int i) { load_reset(i, j, a, time.at(t)); });
    });
  }
  // Before the first iteration, of the last step.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int64 steps) {
    vary = resets_vary(a);
    repeat<rows>([&](int j) {
      restarted[j] = false;
      now[j] = kRun;
      if (steps > 0) now[j] = walk[j].begin(a, time.at(steps - 1), -time.stride(1), row[j]);
      repeat<units>([&](int i) { load_reset(i, j, a, time.at(steps - 1)); });
    });
  }
  // Of this step, at place t; values that do not differ between steps are loaded once.
  template <typename Arguments>
  RNNC_MEMBER void load_reset(int i, int j, const Arguments& a, int64 t) {
    if (vary && !restarts(j)) return;
    repeat<Cell::kStates>([&](int s) {
      reset[i][j][s] = kReads[s] ? to_real(*reset_value(a, s, t, row[j], unit[i])) : real(0);
    });
  }

  // Once per iteration, after its last use of this step's masks: loads what the step before step t
  // begins from, if reset values differ between steps.
  template <typename Arguments>
  RNNC_MEMBER void advance(const Arguments& a, const TimeOrder& time, int t) {
    repeat<rows>([&](int j) {
      restarted[j] = restarts(j);
      now[j] = kRun;
      if (t > 0) now[j] = walk[j].next(a, time.at(t - 1), -time.stride(1), row[j]);
    });
    if (!vary) return;
    // Laundered: otherwise the compiler would compute addresses in every step.
    const int64 place = launder(time.at(t - 1));
    repeat<units>([&](int i) { repeat<rows>([&](int j) { load_reset(i, j, a, place); }); });
  }

  RNNC_MEMBER bool holds(int j) const { return now[j] == kHold; }
  RNNC_MEMBER bool restarts(int j) const { return now[j] == kRestart; }
  RNNC_MEMBER bool has_restarted(int j) const { return restarted[j]; }

  // The states that the step began from; `state` are those after the step before, or the initial
  // states before the first of all steps.
  template <typename Arguments>
  RNNC_MEMBER void select_before(int i, int j, const Arguments& a, States& before,
                                 const States& state) const {
    repeat<Cell::kStates>([&](int s) {
      before[s] = kReads[s] && restarts(j) ? reset[i][j][s] : state[s];
    });
#ifdef RNNC_REVERSE
    // Once per row, and not at the first of all steps if the row is shorter than others.
    if (now[j] != kFirst) return;
    repeat<Cell::kStates>([&](int s) {
      const int64 offset = row[j] * (a.heads * a.dim) + unit[i];
      if (kReads[s]) before[s] = to_real(a.initial_states[s][offset]);
    });
#endif
  }
  // A row that does not run the step passes on the gradient `after`, and has none of gates.
  RNNC_MEMBER void select_gradients(int j, States& d_state, Gates& d_gate, Params& d_param,
                                    const States& after) const {
    repeat<Cell::kStates>([&](int s) { d_state[s] = holds(j) ? after[s] : d_state[s]; });
    repeat<Cell::kGates>([&](int g) { d_gate[g] = holds(j) ? real(0) : d_gate[g]; });
    repeat<Cell::kParams>([&](int p) { d_param[p] = holds(j) ? real(0) : d_param[p]; });
  }
  // A part of the gradient of the states before the step after this one, if it goes on.
  RNNC_MEMBER real carried(int j, real part) const { return restarted[j] ? real(0) : part; }

  // Ends the gradient of the states before a step that began anew, once it is complete.
  template <typename Arguments>
  RNNC_MEMBER void end_gradient(int i, int j, const Arguments& a, bool valid,
                                States& d_state) const {
    repeat<Cell::kStates>([&](int s) {
      if (valid && a.d_reset_to[s]) {
        red_add(a.d_reset_to[s] + int64{row[j]} * (a.heads * a.dim) + unit[i],
                SumOverTime(d_state[s]));
      }
      d_state[s] = 0;
    });
  }
};

#else

template <int units, int rows>
struct BackwardMasks {
  RNNC_MEMBER void place_row(int, int64) {}
  RNNC_MEMBER void place_unit(int, int64) {}
  template <typename Arguments>
  RNNC_MEMBER void begin_single(const Arguments&, const TimeOrder&, int64) {}
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments&, const TimeOrder&, int64) {}
  template <typename Arguments>
  RNNC_MEMBER void advance(const Arguments&, const TimeOrder&, int) {}
  RNNC_MEMBER real carried(int, real part) const { return part; }
  static RNNC_MEMBER constexpr bool holds(int) { return false; }
  static RNNC_MEMBER constexpr bool has_restarted(int) { return false; }
  template <typename Arguments>
  RNNC_MEMBER void select_before(int, int, const Arguments&, States& before,
                                 const States& state) const {
    assign(before, state);
  }
  RNNC_MEMBER void select_gradients(int, const States&, const Gates&, const Params&,
                                    const States&) const {}
  template <typename Arguments>
  RNNC_MEMBER void end_gradient(int, int, const Arguments&, bool, const States&) const {}
};

#endif

}  // namespace rnnc
