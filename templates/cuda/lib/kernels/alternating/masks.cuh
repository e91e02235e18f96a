// Masks in a kernel of an alternating plan, which runs one step: how an item takes it.
//
// Unlike the rows of a resident plan, one that does not run a step keeps its states: nothing of it
// is in registers at its last step. No row ends early, so rows are taken as they lie. A call may
// step down from a resident plan to this one, with the same masks: a row's bit is found by its
// place.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"

namespace rnnc::alternating {

// How a row takes a step.
enum class How : u32 {
  kHold,     // it does not run the step: its states stand still
  kRun,      // from the states after the last step
  kRestart,  // from the reset values
  kFirst,    // from the initial states: the first step that the row runs
};

// Of step t; kRun, if there is no such step.
template <typename Arguments>
RNNC_INLINE How load_how(const Arguments& a, const TimeOrder& time, int64 t, int64 row) {
  if (t < 0 || t >= a.steps) return How::kRun;
  const int64 step = time.at(t), count = row_steps(a, row), place = place_of(a, row);
  const bool reversed = time.reversed;
  if (step >= count) return How::kHold;
  const u32 restarts = ld_global_nc_u8(restarts_of(a, place, reversed) + step);
  if (restarts & restart_bit(place)) return How::kRestart;
  return step == (reversed ? count - 1 : 0) ? How::kFirst : How::kRun;
}

struct ForwardMasks : Order {
  int64 row, unit;  // in the batch; in [N, D]
  How now, next;    // this step, and the next one
  States reset;     // what the next one may begin from
  States stored;    // the results of this step

  RNNC_MEMBER void load(const ForwardArguments& a, const TimeOrder& time, int64 t, int64 batch_row,
                        int64 plane_unit) {
    if (!kMasked) return;
    Order::operator=(time);
    row = batch_row;
    unit = plane_unit;
    now = load_how(a, time, t, row);
    next = load_how(a, time, t + 1, row);
    if (next != How::kRestart) return;
    repeat<Cell::kStates>([&](int s) {
      reset[s] = to_real(*reset_value(a, s, time.at(t + 1), row, unit, reversed));
    });
  }
  // Before the first step: replaces initial states that it does not begin from.
  RNNC_MEMBER void begin_states(const ForwardArguments& a, const TimeOrder& time,
                                States& state) const {
    if (!kMasked || now != How::kRestart) return;
    repeat<Cell::kStates>([&](int s) {
      state[s] = to_real(*reset_value(a, s, time.at(0), row, unit, reversed));
    });
  }
  // From the states after the step, if the row runs it: what is stored, and what comes next.
  RNNC_MEMBER void select(States& next_state, const States& state) {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) {
      const bool holds = now == How::kHold;
      stored[s] = holds ? real(0) : next_state[s];
      const real kept = holds ? state[s] : next_state[s];
      next_state[s] = next == How::kRestart ? reset[s] : kept;
    });
  }
  RNNC_MEMBER const States& results(const States& state) const { return kMasked ? stored : state; }
};

struct BackwardMasks : Order {
  int64 row, unit;  // in the batch; in [N, D]
  How now;
  bool restarted;   // the step after this one
  States reset;     // what this step may begin from

  // Before step t; or after all steps, if t is -1.
  RNNC_MEMBER void load(const BackwardArguments& a, const TimeOrder& time, int64 t,
                        int64 batch_row, int64 plane_unit) {
    if (!kMasked) return;
    Order::operator=(time);
    row = batch_row;
    unit = plane_unit;
    restarted = load_how(a, time, t + 1, row) == How::kRestart;
    now = load_how(a, time, t, row);
    if (now != How::kRestart) return;
    repeat<Cell::kStates>([&](int s) {
      if (kReads[s]) reset[s] = to_real(*reset_value(a, s, time.at(t), row, unit, reversed));
    });
  }
  RNNC_MEMBER bool holds() const { return kMasked && now == How::kHold; }
  RNNC_MEMBER bool has_restarted() const { return kMasked && restarted; }

  // The states that the step began from; `state` are those after the step before, or the initial
  // states before the first of all steps.
  RNNC_MEMBER void select_before(const BackwardArguments& a, States& before,
                                 const States& state) const {
    if (!kMasked) return assign(before, state);
    repeat<Cell::kStates>([&](int s) {
      before[s] = kReads[s] && now == How::kRestart ? reset[s] : state[s];
    });
    // In reverse, not at the first of all steps if the row is shorter than others.
    if (!reversed || now != How::kFirst) return;
    repeat<Cell::kStates>([&](int s) {
      if (kReads[s]) before[s] = to_real(a.initial_states[s][state_offset(a, row, unit)]);
    });
  }
  // A row that does not run the step passes on the gradient `after`, and has none of gates.
  RNNC_MEMBER void select_gradients(States& d_state, Gates& d_gate, Params& d_param,
                                    const States& after) const {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) { d_state[s] = holds() ? after[s] : d_state[s]; });
    repeat<Cell::kGates>([&](int g) { d_gate[g] = holds() ? real(0) : d_gate[g]; });
    repeat<Cell::kParams>([&](int p) { d_param[p] = holds() ? real(0) : d_param[p]; });
  }
  // Ends the gradient of the states before a step that restarted, once it is complete.
  RNNC_MEMBER void end_gradient(const BackwardArguments& a, States& d_state) const {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) {
      if (a.d_reset_to[s]) {
        red_add(a.d_reset_to[s] + state_offset(a, row, unit), SumOverTime(d_state[s]));
      }
      d_state[s] = 0;
    });
  }
};

}  // namespace rnnc::alternating
