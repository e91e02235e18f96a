// BackwardMasks: how a thread's items take a step of the backward.
//
// The gradient of the states that a step begins from is complete once the product of the step has
// been added. It goes on to the step before, or ends here: at a restart it is added to the gradients
// of the reset values.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

#ifdef RNNC_MASKED

// Of `rows` batch rows of `units` units.
template <int units, int rows>
struct BackwardMasks {
  int row[rows], unit[units];              // in the batch; in [N, D]
  u32 now[rows], next[rows], later[rows];  // the bytes of this step and of the two before it
  bool restarted[rows];                    // the step after this one
  // What this step may begin from instead of the states after the step before.
  Vec<Element, 1> other[units][rows][Cell::kStates];

  RNNC_MEMBER void place_row(int j, int64 batch_row) { row[j] = static_cast<int>(batch_row); }
  RNNC_MEMBER void place_unit(int i, int64 plane_unit) { unit[i] = static_cast<int>(plane_unit); }

  // Before the first iteration of the kernel, of step t.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int64 steps, int64 t) {
    repeat<rows>([&](int j) {
      restarted[j] = t + 1 < steps && load_mask(a, time.at(t + 1), row[j]) == kRestart;
      now[j] = next[j] = t >= 0 ? load_mask(a, time.at(t), row[j]) : kRun;
    });
    load_others(a, time, t + 1);
    repeat<rows>([&](int j) { next[j] = t > 0 ? load_mask(a, time.at(t - 1), row[j]) : kRun; });
  }

  // Loads what the step before step t may begin from.
  template <typename Arguments>
  RNNC_MEMBER void load_others(const Arguments& a, const TimeOrder& time, int64 t) {
    repeat<rows>([&](int j) {
      repeat<units>([&](int i) {
        if (next[j] < kRestart) return;
        repeat<Cell::kStates>([&](int s) {
          if (!kReads[s]) return;
          const Element* const initial =
              a.initial_states[s] + int64{row[j]} * (a.heads * a.dim) + unit[i];
          other[i][j][s].load(next[j] == kFirst
                                  ? initial
                                  : reset_value(a, s, time.at(t - 1), row[j], unit[i]));
        });
      });
    });
  }
  // Once per step, after its last use of `before`: loads what the steps before step t need.
  template <typename Arguments>
  RNNC_MEMBER void ahead(const Arguments& a, const TimeOrder& time, int t) {
    load_others(a, time, t);
    repeat<rows>(
        [&](int j) { later[j] = t > 1 ? load_mask(a, time.at(t - 2), row[j]) : kRun; });
  }
  RNNC_MEMBER void advance() {
    repeat<rows>([&](int j) { restarted[j] = restarts(j); });
    assign(now, next);
    assign(next, later);
  }

  RNNC_MEMBER bool holds(int j) const { return now[j] == kHold; }
  RNNC_MEMBER bool restarts(int j) const { return now[j] == kRestart; }
  RNNC_MEMBER bool has_restarted(int j) const { return restarted[j]; }

  // The states that the step began from; `state` are those after the step before.
  RNNC_MEMBER void select_before(int i, int j, States& before, const States& state) const {
    repeat<Cell::kStates>([&](int s) {
      before[s] = kReads[s] && now[j] >= kRestart ? other[i][j][s][0] : state[s];
    });
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

  // Once the gradient of the states before the step is complete: at a restart it ends here.
  template <typename Arguments>
  RNNC_MEMBER void end_at_restart(int i, int j, const Arguments& a, bool valid,
                                  States& d_state) const {
    if (restarts(j)) end_gradient(i, j, a, valid, d_state);
  }
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
  RNNC_MEMBER void begin(const Arguments&, const TimeOrder&, int64, int64) {}
  template <typename Arguments>
  RNNC_MEMBER void ahead(const Arguments&, const TimeOrder&, int) {}
  RNNC_MEMBER void advance() {}
  RNNC_MEMBER real carried(int, real part) const { return part; }
  static RNNC_MEMBER constexpr bool holds(int) { return false; }
  static RNNC_MEMBER constexpr bool restarts(int) { return false; }
  static RNNC_MEMBER constexpr bool has_restarted(int) { return false; }
  RNNC_MEMBER void select_before(int, int, States& before, const States& state) const {
    assign(before, state);
  }
  RNNC_MEMBER void select_gradients(int, const States&, const Gates&, const Params&,
                                    const States&) const {}
  template <typename Arguments>
  RNNC_MEMBER void end_at_restart(int, int, const Arguments&, bool, const States&) const {}
  template <typename Arguments>
  RNNC_MEMBER void end_gradient(int, int, const Arguments&, bool, const States&) const {}
};

#endif

}  // namespace rnnc
