// BackwardMasks: how a thread's items take a step of the backward.
//
// The gradient of the states that a step begins from is complete once the product of the step has
// been added. It goes on to the step before, or ends here: at a restart it is added to the
// gradients of the reset values; at the edge of a row it is that of the initial states, or comes
// from padding and is replaced by the gradient of the last states.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// Of `rows` batch rows of `units` units; the rows are of one group of kMaskRows.
template <int units, int rows>
struct BackwardMasks : Order {
  int row[rows], unit[units];  // in the batch; in [N, D]
  int place[rows];             // among the tiles' rows
  int edge[rows];
  u32 bit[rows], learned;      // of the row in a byte of restarts; of rows that have gradients there
  int step;                    // this one
  u32 now, later;              // which rows restart before this step, and before the one after it
  bool ran[rows];              // whether the step after this one is the row's own
  bool cut[rows], dropped[rows];  // of the gradients of the states before it: what was carried from
                                  // its pointwise map, and what arrives from products, ends
  States reset[units][rows];   // what this step may begin from
  SumOverTime d_reset[units][rows][Cell::kStates];  // gradients of reset values, so far
  bool is_learned;             // reset values have gradients

  // A row, and its place among those of all tiles.
  RNNC_MEMBER void place_row(int j, int64 batch_row, int64 row_place) {
    if (!kMasked) return;
    row[j] = static_cast<int>(batch_row);
    place[j] = static_cast<int>(row_place);
  }
  RNNC_MEMBER void place_unit(int i, int64 plane_unit) {
    if (kMasked) unit[i] = static_cast<int>(plane_unit);
  }

  // Before the first `advance`.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int64 steps) {
    if (!kMasked) return;
    Order::operator=(time);
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) { repeat<Cell::kStates>([&](int s) { d_reset[i][j][s] = 0; }); });
    });
    is_learned = false;
    repeat<Cell::kStates>([&](int s) { is_learned |= a.d_reset_to[s] != nullptr; });
    learned = 0;
    repeat<rows>([&](int j) {
      edge[j] = launder(edge_of(a, row[j], steps, reversed));
      bit[j] = launder(restart_bit(place[j]));
      if (is_learned) learned |= bit[j];
      ran[j] = false;
    });
    learned = launder(learned);
    now = later = 0;
    if (!kResetsLate) {
      repeat<units>([&](int i) { repeat<rows>([&](int j) { load_reset(i, j, a, 0); }); });
    }
    step = static_cast<int>(steps);
  }
  // Goes on to the step before this one, from none to the last, or from the first to none, with the
  // rows that restart before it.
  template <typename Arguments>
  RNNC_MEMBER void advance(const Arguments& a, const TimeOrder& time, u32 restarts) {
    if (!kMasked) return;
    repeat<rows>([&](int j) { ran[j] = runs(j); });
    later = now;
    now = restarts;
    --step;
    repeat<rows>([&](int j) {
      cut[j] = later & bit[j];
      dropped[j] = cut[j] || (!reversed && at_edge(j));
    });
    find_step(a, time);
  }

  // Whether this step, or the one after it, is the row's own.
  RNNC_MEMBER bool runs(int j) const {
    return !kMasked || is_own_step(step, edge[j], reversed);
  }
  RNNC_MEMBER bool has_run(int j) const { return !kMasked || ran[j]; }

  // What the step may have begun from: `value` is the copy of that for state s.
  RNNC_MEMBER void set_reset(int i, int j, int s, real value) {
    if (kMasked && (!reversed || step != edge[j])) reset[i][j][s] = value;
  }

  // The states that the step began from; `state` are those after the step before, or the initial
  // states before the first of all steps.
  RNNC_MEMBER void select_before(int i, int j, States& before, const States& state) const {
    const bool replaced = kMasked && ((now & bit[j]) || (reversed && step == edge[j]));
    repeat<Cell::kStates>([&](int s) {
      before[s] = kReads[s] && replaced ? reset[i][j][s] : state[s];
    });
  }

  // A part of the gradient of the states before the step after this one, if it goes on; what is
  // carried from its pointwise map, and what has arrived from products.
  RNNC_MEMBER real carried(int j, real part) const { return kMasked && cut[j] ? real(0) : part; }
  RNNC_MEMBER real arrived(int j, real part) const {
    return kMasked && dropped[j] ? real(0) : part;
  }
  // At the edge of a row whose own steps come next: the gradient begins as that of its last states.
  template <typename Arguments>
  RNNC_MEMBER void begin_gradient(int i, int j, const Arguments& a, States& d_state) const {
    if (!kMasked || reversed || !a.masks.longest || !any_lane(at_edge(j))) return;
    if (at_edge(j)) load_last(i, j, a, d_state);
  }
  // Whether the gradient of the states before the step after this one is needed besides.
  template <typename Arguments>
  RNNC_MEMBER bool ends(const Arguments& a) const {
    if (!kMasked || (!a.masks.longest && !is_learned)) return false;
    return any_lane((learned & later) || is_any(edge, step + 1));
  }
  // Adds that gradient, once it is complete, to those of reset values, or stores it as that of the
  // initial states.
  template <typename Arguments>
  RNNC_MEMBER void end_gradient(int i, int j, const Arguments& a, bool valid,
                                const States& d_state) {
    repeat<Cell::kStates>([&](int s) {
      if (learned & later & bit[j]) d_reset[i][j][s] += SumOverTime(d_state[s]);
      if (reversed && at_edge(j) && valid) {
        const int64 offset = state_offset(a, row[j], unit[i]);
        a.d_initial_states[s][offset] = to_element<Element>(d_state[s]);
      }
    });
  }
  // All of that, if the whole gradient is at hand; valid(i, j), and state(i, j) is the gradient.
  template <typename Arguments, typename Valid, typename State>
  RNNC_MEMBER void cross(const Arguments& a, const Valid& valid, const State& state) {
    if (!kMasked) return;
    if (ends(a)) {
      repeat<units>([&](int i) {
        repeat<rows>([&](int j) {
          end_gradient(i, j, a, valid(i, j), state(i, j));
          begin_gradient(i, j, a, state(i, j));
        });
      });
    }
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) {
        States& d_state = state(i, j);
        repeat<Cell::kStates>([&](int s) { d_state[s] = carried(j, d_state[s]); });
      });
    });
  }
  // After all steps: stores the gradients of reset values. Whether `d_state` is the gradient of the
  // row's initial states; replaces it if the row runs none.
  template <typename Arguments>
  RNNC_MEMBER bool finish(int i, int j, const Arguments& a, int64 steps, bool valid,
                          States& d_state) const {
    if (!kMasked) return true;
    repeat<Cell::kStates>([&](int s) {
      if (!valid || !a.d_reset_to[s]) return;
      a.d_reset_to[s][state_offset(a, row[j], unit[i])] = d_reset[i][j][s];
    });
    if (!reversed || edge[j] <= 0) return true;
    if (edge[j] < steps) return false;
    load_last(i, j, a, d_state);
    return true;
  }

  RNNC_MEMBER bool at_edge(int j) const { return step + 1 == edge[j]; }

  template <typename Arguments>
  RNNC_MEMBER void find_step(const Arguments& a, const TimeOrder& time) {
    if (reversed && a.masks.longest && any_lane(is_any(edge, step))) {
      repeat<rows>([&](int j) {
        if (step != edge[j]) return;
        repeat<units>([&](int i) { load_initial(i, j, a); });
      });
    }
    if (!kResetsLate || !any_lane(now)) return;
    const int64 place = launder(time.at(step));
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) {
        if (now & bit[j]) load_reset(i, j, a, place);
      });
    });
  }
  template <typename Arguments>
  RNNC_MEMBER void load_reset(int i, int j, const Arguments& a, int64 place) {
    if (kResetsAhead) return;
    repeat<Cell::kStates>([&](int s) {
      const Element* const value = reset_value(a, s, place, row[j], unit[i], reversed);
      reset[i][j][s] = kReads[s] ? to_real(*value) : real(0);
    });
  }
  template <typename Arguments>
  RNNC_MEMBER void load_initial(int i, int j, const Arguments& a) {
    const int64 offset = state_offset(a, row[j], unit[i]);
    repeat<Cell::kStates>([&](int s) {
      if (kReads[s]) reset[i][j][s] = to_real(a.initial_states[s][offset]);
    });
  }
  template <typename Arguments>
  RNNC_MEMBER void load_last(int i, int j, const Arguments& a, States& d_state) const {
    repeat<Cell::kStates>([&](int s) {
      const Element* const last = a.d_last[s];
      d_state[s] = last ? to_real(last[state_offset(a, row[j], unit[i])]) : real(0);
    });
  }
};

}  // namespace rnnc
