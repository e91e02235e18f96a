// ForwardMasks: how a thread's items take a step of the forward.
//
// After a step a thread has the states that the next step begins from: the reset values already, if
// the row restarts there. So it publishes them for the products without a second pass. The results
// to store lie beside them.
//
// Selects handle what may happen at any step. What happens once per row, at its edge, is behind a
// branch that no other thread waits for. Kernels that run the steps in parts put that branch, and
// the loads of masks, between two parts.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// Of `rows` batch rows of `units` units; the rows are of one group of kMaskRows.
template <int units, int rows>
struct ForwardMasks : Order {
  int row[rows], unit[units];  // in the batch; in [N, D]
  int place[rows];             // among the tiles' rows
  int edge[rows];
  u32 bit[rows];               // of the row in a byte of restarts
  u32 replaced[rows];          // bit i: the states before the step i + 1 steps from here are others
  int block;                   // from the step after this one, a lane each has 32 steps' restarts
  RestartsInBlocks restarts;
  bool runs[rows];             // whether the stored results are of a step of the row's own
  States reset[units][rows];   // what the next step may begin from
  States stored[units][rows];  // the results of this step
  bool is_before_edge[rows];   // of a reversed row, throughout this part

  // A row, and its place among those of all tiles.
  RNNC_MEMBER void place_row(int j, int64 batch_row, int64 row_place) {
    if (!kMasked) return;
    row[j] = static_cast<int>(batch_row);
    place[j] = static_cast<int>(row_place);
  }
  RNNC_MEMBER void place_unit(int i, int64 plane_unit) {
    if (kMasked) unit[i] = static_cast<int>(plane_unit);
  }

  // Before the first of all steps.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int steps) {
    if (!kMasked) return;
    Order::operator=(time);
    repeat<rows>([&](int j) {
      edge[j] = launder(edge_of(a, row[j], steps, reversed));
      bit[j] = launder(restart_bit(place[j]));
      repeat<units>([&](int i) {
        if (reversed && edge[j] > 0) {
          // At its edge the row's own steps begin.
          repeat<Cell::kStates>([&](int s) { reset[i][j][s] = initial(i, j, a, s); });
        } else if (!kResetsLate) {
          load_reset(i, j, a, 0);
        }
      });
    });
  }
  // After `begin`: replaces initial states that the first step does not begin from.
  template <typename Arguments>
  RNNC_MEMBER void begin_states(int i, int j, const Arguments& a, const TimeOrder& time,
                                States& state) const {
    if (!kMasked) return;
    if (!(ld_global_nc_u8(restarts_of(a, place[j], reversed) + time.at(0)) & bit[j])) return;
    repeat<Cell::kStates>([&](int s) {
      state[s] = to_real(*reset_value(a, s, time.at(0), row[j], unit[i], reversed));
    });
  }

  // Once per step, well before its `select`, with the rows that restart before the next one: loads
  // what that begins from, if reset values differ between steps and are not there ahead.
  template <typename Arguments>
  RNNC_MEMBER void ahead(const Arguments& a, const TimeOrder& time, int t, u32 next) {
    if (!kMasked) return;
    repeat<rows>([&](int j) {
      replaced[j] = (next & bit[j]) || (reversed && t + 1 == edge[j]) ? 1 : 0;
      is_before_edge[j] = edge[j] > t;
    });
    if (reversed && a.masks.longest && !kResetsLate && any_lane(is_any(edge, t))) {
      repeat<rows>([&](int j) {
        if (t == edge[j]) repeat<units>([&](int i) { load_reset(i, j, a, 0); });
      });
    }
    if (!kResetsLate || !any_lane(next)) return;
    const int64 place = launder(time.at(t + 1));
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) {
        if (next & bit[j]) load_reset(i, j, a, place);
      });
    });
  }
  // What the next step may begin from: read(s) is the copy of that for state s.
  template <typename Read>
  RNNC_MEMBER void read_reset(int i, int j, const Read& read) {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) {
      // NOTE: read without a condition: a branch would wait for what it reads.
      const real value = launder(read(s));
      reset[i][j][s] = reversed && is_before_edge[j] ? reset[i][j][s] : value;
    });
  }
  // From the states after the step: what is stored, and what the next step begins from.
  RNNC_MEMBER void select(int i, int j, States& state) {
    if (!kMasked) return;
    assign(stored[i][j], state);
    const bool is_replaced = replaced[j] & 1;
    repeat<Cell::kStates>([&](int s) { state[s] = is_replaced ? reset[i][j][s] : state[s]; });
  }
  // After the `select` of a step, for those that take several steps at once.
  RNNC_MEMBER void advance() {
    if (!kMasked) return;
    repeat<rows>([&](int j) { replaced[j] >>= 1; });
  }
  // Before the first part: the first 32 steps' restarts are on their way.
  template <typename Arguments>
  RNNC_MEMBER void begin_parts(const Arguments& a, const TimeOrder& time, int64 tile_row,
                               int steps) {
    if (!kMasked) return;
    block = -kBlockSteps;
    load_next_block(a, time, tile_row, steps);
  }
  // Handles what is rare before step t, and returns the step before which to call it again. The
  // steps until then need no branch. They are at most 32, and end where a row ends or begins, or
  // restarts from values that are loaded there. All lanes of a warp call this; four lanes have all
  // of its rows. During a step the results of the step `lag` before it are stored; those of rows
  // that end with step t - 1 are last states: valid(i, j) and at(tensor, 1, i, j) as for
  // `store_last`.
  template <int lag, typename Valid, typename At>
  RNNC_MEMBER int begin_part(const ForwardArguments& a, const TimeOrder& time, int64 tile_row,
                             int t, int steps, const Valid& valid, const At& at) {
    if (!kMasked) return steps;
    const bool is_next_block = t == block + kBlockSteps;
    if (is_next_block) block = t, restarts.bytes = restarts.coming;
    if (is_next_block && !kLoadsLast) load_next_block(a, time, tile_row, steps);
    restarts.each_row([&](int r, u32 of_row) {
      repeat<rows>([&](int j) {
        if (bit[j] == 1u << r) replaced[j] = of_row >> (t - block);
      });
    });
    int stop = minimum(block + kBlockSteps, steps);
    repeat<rows>([&](int j) {
      if (kResetsLate && replaced[j] && !(reversed && edge[j] > t)) {
        const int next = t + __ffs(replaced[j]);
        stop = minimum(stop, next);
        repeat<units>([&](int i) { load_reset(i, j, a, time.at(next)); });
      }
      if (edge[j] == t && t > 0) {
        repeat<units>([&](int i) {
          if (reversed) {
            if (!kResetsLate) load_reset(i, j, a, 0);
            return;
          }
          repeat<Cell::kStates>([&](int s) {
            if (valid(i, j)) *at(a.last[s], 1, i, j) = to_element<Element>(stored[i][j][s]);
          });
        });
      }
      if (lag > 0 && edge[j] == t) stop = minimum(stop, t + lag);
      if (edge[j] > t) stop = minimum(stop, edge[j]);
      if (reversed && edge[j] > t && edge[j] - t <= 32) replaced[j] |= 1u << (edge[j] - t - 1);
      runs[j] = is_own_step(t - lag, edge[j], reversed);
      is_before_edge[j] = edge[j] > t;
    });
    // NOTE: of all lanes, though four would do: so the compiler knows that a warp's lanes stay
    // together.
    stop = __reduce_min_sync(~0u, stop);
    if (is_next_block && kLoadsLast) load_next_block(a, time, tile_row, steps);
    return stop;
  }

  // Before the results of step t are stored.
  RNNC_MEMBER void begin_store(int t) {
    if (!kMasked) return;
    repeat<rows>([&](int j) { runs[j] = is_own_step(t, edge[j], reversed); });
  }
  RNNC_MEMBER const States& results(int i, int j, const States& state) const {
    return kMasked ? stored[i][j] : state;
  }
  // Packed results of a row, or zeros.
  template <typename T, int n>
  RNNC_MEMBER void clear_padding(int j, Vec<T, n>& vec) const {
    if (kMasked) vec.clear_unless(runs[j]);
  }
  RNNC_MEMBER real own_or_zero(int j, real result) const {
    return !kMasked || runs[j] ? result : real(0);
  }
  // Results of a step that no row of the tile runs.
  RNNC_MEMBER void clear() {
    repeat<rows>([&](int j) { runs[j] = false; });
  }
  // Stores the last states of rows whose last step is step t and not the last of all; valid(i, j)
  // and at(tensor, 1, i, j) as for the results.
  template <typename Valid, typename At>
  RNNC_MEMBER void store_last(const ForwardArguments& a, int t, const Valid& valid,
                              const At& at) const {
    if (!kMasked || reversed || !a.masks.longest || !any_lane(is_any(edge, t + 1))) return;
    repeat<rows>([&](int j) {
      if (t + 1 != edge[j]) return;
      repeat<units>([&](int i) {
        repeat<Cell::kStates>([&](int s) {
          if (valid(i, j)) *at(a.last[s], 1, i, j) = to_element<Element>(stored[i][j][s]);
        });
      });
    });
  }
  // After the last step: whether `state` are the row's last states; replaces them if it runs none.
  template <typename Arguments>
  RNNC_MEMBER bool finish(int i, int j, const Arguments& a, int steps, States& state) const {
    if (!kMasked || reversed || edge[j] >= steps) return true;
    if (edge[j] > 0) return false;
    repeat<Cell::kStates>([&](int s) { state[s] = initial(i, j, a, s); });
    return true;
  }

 private:
  static constexpr int kBlockSteps = 32;
  // Whether the next block's restarts are loaded after all else between two parts, or before. NOTE:
  // the other order costs up to 3 % (docs/notebook.md).
  static constexpr bool kLoadsLast = kResetsAhead;

  template <typename Arguments>
  RNNC_MEMBER void load_next_block(const Arguments& a, const TimeOrder& time, int64 tile_row,
                                   int steps) {
    const int lane = threadIdx.x & 31;
    restarts.load(restarts_of(a, tile_row, reversed), time, block + kBlockSteps + 1 + lane, steps);
  }
  template <typename Arguments>
  RNNC_MEMBER real initial(int i, int j, const Arguments& a, int s) const {
    return to_real(a.initial_states[s][state_offset(a, row[j], unit[i])]);
  }
  template <typename Arguments>
  RNNC_MEMBER void load_reset(int i, int j, const Arguments& a, int64 place) {
    if (kResetsAhead) return;
    repeat<Cell::kStates>([&](int s) {
      reset[i][j][s] = to_real(*reset_value(a, s, place, row[j], unit[i], reversed));
    });
  }
};

}  // namespace rnnc
