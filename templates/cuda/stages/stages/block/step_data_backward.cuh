// StepData: copies of what a step of a block's backward reads, several steps ahead.
#pragma once

#include "lib/stages/one_stage_backward.cuh"
// Its items need the above.
#include "lib/kernels/block/items_backward.cuh"
#include "lib/stages/kept_copy.cuh"

namespace rnnc::block_backward {

struct StepData {
  SavedCopy saved_rows;
  StateCopy state_rows;
  KeptCopy<SavedCopy> saved;
  KeptCopy<StateCopy> before[Cell::kStates], gradient[Cell::kStates], reset[Cell::kStates];
  int64 to_initial[Cell::kStates];  // from the place of the states after step -1, in bytes

  // From the last of `steps` steps downwards.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int64 head, int64 first_row,
                         int steps) {
    const int64 first_unit = head * Plan::kHeadDim, plane = a.heads * Plan::kHeadDim;
    const int64 step_size = a.batch * plane, step_stride = -time.stride(step_size);
    const int64 last = time.at(steps - 1);
    saved_rows.prepare(a, first_row);
    state_rows.prepare(a, first_row);
    saved.begin(saved_rows, a.saved + (last * step_size + first_unit) * Cell::kSaved,
                plane * Cell::kSaved, step_stride * Cell::kSaved);
    repeat<Cell::kStates>([&](int s) {
      // The states before step 0 lie elsewhere. Of other steps they are those after the step before.
      const Element* const states = kReads[s] ? a.states[s] + first_unit : nullptr;
      const Element* const first = states + time.at(steps - 2) * step_size;
      before[s].begin(state_rows, kReads[s] ? first : nullptr, plane, step_stride);
      const Element* const initial = a.initial_states[s] + first_unit;
      to_initial[s] = reinterpret_cast<const char*>(initial) -
                      reinterpret_cast<const char*>(states + time.at(-1) * step_size);
      gradient[s].begin(
          state_rows,
          a.d_states[s] ? a.d_states[s] + last * a.d_states_time[s] + first_unit : nullptr,
          a.d_states_row[s], -time.stride(a.d_states_time[s]));
      if (kResetsAhead && kReads[s]) {
        reset[s].begin(state_rows, reset_value(a, s, last, 0, first_unit, time.reversed),
                       a.masks.reset_row[s], -time.stride(a.masks.reset_time[s]));
      }
    });
  }
  // Copies what the next step reads, which is step t, if it exists.
  RNNC_MEMBER void issue(u32 to, int t, bool reversed) {
    const bool exists = t >= 0;
    saved.issue(to, exists);
    repeat<Cell::kStates>([&](int s) {
      const u32 states = to + before_offset(s);
      if (kReads[s]) before[s].issue(states, exists, t == 0 ? to_initial[s] : 0);
      gradient[s].issue(states + StateCopy::kBytes, exists);
      // In reverse there is no such value before the first step.
      if (kResetsAhead && kReads[s]) {
        reset[s].issue(to + reset_offset(s), reversed ? t > 0 : exists);
      }
    });
  }
};

}  // namespace rnnc::block_backward
