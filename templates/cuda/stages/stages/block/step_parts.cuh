// StepParts: how the items of a block's backward take the steps, several at once.
//
// The steps run in parts that need no branch for what is rare, as in
// lib/cell/mask_parts_backward.cuh. A part ends where a row's gradient begins or ends, or where a
// row restarted from values that are loaded there. Between two parts the gradients of the states are
// whole: unlike those of a cluster, nothing of them is in flight.
#pragma once

#include "lib/cell/mask_backward.cuh"

namespace rnnc {

// Of `rows` batch rows of `units` units. What does not change between steps is in the items' masks.
template <int units, int rows>
struct StepParts {
  using Masks = BackwardMasks<units, rows>;
  u32 restarts[rows];  // bit 0: before the step after this one; bit 1: before this one; and so on
  int block;           // the step from which a lane each has the restarts of 32 steps
  RestartsInBlocks blocks;
  bool own[rows];      // the steps of this part are the row's own
  bool starts[rows];   // this part is the first step of a reversed row, which began from initial states
  u32 notable;         // not 0: some gradient is needed that ends within this part

  // Before the first part: the restarts of the first block are on their way.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Masks& masks, const Arguments& a, const TimeOrder& time,
                         int64 tile_row, int steps) {
    if (!kMasked) return;
    block = steps - 1 + kBlockSteps;
    load_next_block(masks, a, time, tile_row, steps);
  }
  // Before step t: returns the last step of the part. All lanes of a warp call this; they have all
  // rows of the block. state(i, j) is the gradient of the states after step t.
  template <typename Arguments, typename State>
  RNNC_MEMBER int begin_part(Masks& masks, const Arguments& a, const TimeOrder& time,
                             int64 tile_row, int t, int steps, const State& state) {
    if (!kMasked) return 0;
    const bool is_next_block = t == block - kBlockSteps;
    if (is_next_block) block = t, blocks.bytes = blocks.coming;
    blocks.each_row([&](int r, u32 of_row) {
      repeat<rows>([&](int j) {
        if (masks.place[j] % kMaskRows == r) restarts[j] = of_row >> (block - t);
      });
    });
    int last = maximum(block + 1 - kBlockSteps, 0);
    bool ends = false;
    repeat<rows>([&](int j) {
      const int edge = masks.edge[j];
      if (edge <= t) last = maximum(last, masks.reversed && edge < t ? edge + 1 : edge);
      own[j] = is_own_step(t, edge, masks.reversed);
      if (!masks.reversed && edge == t + 1) {
        repeat<units>([&](int i) { masks.load_last(i, j, a, state(i, j)); });
      }
      const u32 before = restarts[j] >> 1;
      starts[j] = masks.reversed && edge == t && t > 0;
      if (starts[j]) {
        restarts[j] |= 2;
        repeat<units>([&](int i) { masks.load_initial(i, j, a); });
      } else if (kResetsLate && before) {
        const int next = t + 1 - __ffs(before);
        last = maximum(last, next);
        repeat<units>([&](int i) { masks.load_reset(i, j, a, time.at(next)); });
      }
      ends |= (masks.is_learned && restarts[j]) || starts[j];
    });
    // NOTE: reductions, after which the compiler knows that a warp's lanes stay together.
    notable = __reduce_or_sync(~0u, static_cast<u32>(ends));
    last = __reduce_max_sync(~0u, last);
    // NOTE: last, or what else is loaded here could wait for this too.
    if (is_next_block) load_next_block(masks, a, time, tile_row, steps);
    return last;
  }

  RNNC_MEMBER bool runs(int j) const { return !kMasked || own[j]; }
  // What the step may have begun from: `value` is the copy of that for state s.
  RNNC_MEMBER void set_reset(Masks& masks, int i, int j, int s, real value) const {
    if (kMasked && (!masks.reversed || !starts[j])) masks.reset[i][j][s] = value;
  }
  // The states that the step began from; `state` are those after the step before.
  RNNC_MEMBER void select_before(const Masks& masks, int i, int j, States& before,
                                 const States& state) const {
    repeat<Cell::kStates>([&](int s) {
      before[s] = kMasked && kReads[s] && (restarts[j] & 2) ? masks.reset[i][j][s] : state[s];
    });
  }
  // After a step, whose gradients of the states before it, state(i, j), are whole: they go on to
  // the step before, or end here.
  template <typename Arguments, typename Valid, typename State>
  RNNC_MEMBER void cross(Masks& masks, const Arguments& a, const Valid& valid,
                         const State& state) {
    if (!kMasked) return;
    if (notable) {
      repeat<units>([&](int i) {
        repeat<rows>([&](int j) { end_gradient(masks, i, j, a, valid(i, j), state(i, j)); });
      });
    }
    repeat<rows>([&](int j) {
      restarts[j] >>= 1;
      repeat<units>([&](int i) {
        States& d_state = state(i, j);
        repeat<Cell::kStates>([&](int s) {
          d_state[s] = restarts[j] & 1 ? real(0) : d_state[s];
        });
      });
    });
  }
  // After all steps: rows that run none pass on the gradients of their last states.
  template <typename Arguments, typename State>
  RNNC_MEMBER void end(const Masks& masks, const Arguments& a, const State& state) const {
    if (!kMasked || masks.reversed) return;
    repeat<rows>([&](int j) {
      if (masks.edge[j] > 0) return;
      repeat<units>([&](int i) { masks.load_last(i, j, a, state(i, j)); });
    });
  }

 private:
  // A step needs two neighbouring bits of the 32 that the lanes of a warp load.
  static constexpr int kBlockSteps = 31;

  template <typename Arguments>
  RNNC_MEMBER void end_gradient(Masks& masks, int i, int j, const Arguments& a, bool valid,
                                const States& d_state) const {
    repeat<Cell::kStates>([&](int s) {
      if (starts[j]) {
        const int64 offset = state_offset(a, masks.row[j], masks.unit[i]);
        if (valid) a.d_initial_states[s][offset] = to_element<Element>(d_state[s]);
      } else if (restarts[j] & 2) {
        masks.d_reset[i][j][s] += SumOverTime(d_state[s]);
      }
    });
  }
  template <typename Arguments>
  RNNC_MEMBER void load_next_block(const Masks& masks, const Arguments& a, const TimeOrder& time,
                                   int64 tile_row, int steps) {
    const int lane = threadIdx.x & 31;
    const char* const tile = restarts_of(a, tile_row, masks.reversed);
    blocks.load(tile, time, block - kBlockSteps + 1 - lane, steps);
  }
};

}  // namespace rnnc
