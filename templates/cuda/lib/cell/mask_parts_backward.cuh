// BackwardParts: how a thread's items take the steps of the backward, several at once.
//
// The steps run in parts that need no branch for what is rare. A part ends where a row's gradient
// begins or ends, or where a row restarted from values that are loaded there.
#pragma once

#include "lib/cell/mask_backward.cuh"

namespace rnnc {

// Of one batch row of `units` units.
template <int units>
struct BackwardParts : BackwardMasks<units, 1> {
  using Masks = BackwardMasks<units, 1>;
  u32 restarts;  // bit 0: before the step after this one; bit 1: before this one; and so on
  int block;     // the step from which a lane each has the restarts of 32 steps
  RestartsInBlocks blocks;
  bool own;      // the steps of this part are the row's own
  bool starts;   // this part is the first step of a reversed row, which began from initial states
  bool begins;   // its gradient begins with the first step of this part
  u32 notable;   // not 0: some gradient is needed that ends within this part

  // Before the first part: the restarts of the first block are on their way.
  template <typename Arguments>
  RNNC_MEMBER void begin_parts(const Arguments& a, const TimeOrder& time, int64 tile_row,
                               int steps) {
    if (!kMasked) return;
    block = steps - 1 + kBlockSteps;
    load_next_block(a, time, tile_row, steps);
  }
  // Before step t: returns the last step of the part. All lanes of a warp call this; they have
  // rows of one group. state(i) is the gradient of the states after step t.
  template <typename Arguments, typename State>
  RNNC_MEMBER int begin_part(const Arguments& a, const TimeOrder& time, int64 tile_row, int t,
                             int steps, const State& state) {
    if (!kMasked) return 0;
    const bool is_next_block = t == block - kBlockSteps;
    if (is_next_block) block = t, blocks.bytes = blocks.coming;
    blocks.each_row([&](int r, u32 of_row) {
      if (this->place[0] % kMaskRows == r) restarts = of_row >> (block - t);
    });
    const int edge = this->edge[0];
    int last = maximum(block + 1 - kBlockSteps, 0);
    if (edge <= t) last = maximum(last, this->reversed && edge < t ? edge + 1 : edge);
    if (edge == t + 1) last = t;
    own = is_own_step(t, edge, this->reversed);
    begins = !this->reversed && edge == t + 1;
    if (begins) repeat<units>([&](int i) { this->load_last(i, 0, a, state(i)); });
    const u32 before = restarts >> 1;
    starts = this->reversed && edge == t && t > 0;
    if (starts) {
      restarts |= 2;
      repeat<units>([&](int i) { this->load_initial(i, 0, a); });
    } else if (kResetsLate && before) {
      const int next = t + 1 - __ffs(before);
      last = maximum(last, next);
      repeat<units>([&](int i) { this->load_reset(i, 0, a, time.at(next)); });
    }
    const bool ends = (this->is_learned && restarts) || (this->reversed && edge == t + 1);
    // NOTE: reductions, after which the compiler knows that a warp's lanes stay together.
    notable = __reduce_or_sync(~0u, static_cast<u32>(ends));
    last = __reduce_max_sync(~0u, last);
    // NOTE: last, or what else is loaded here could wait for this too.
    if (is_next_block) load_next_block(a, time, tile_row, steps);
    return last;
  }
  // After each step.
  RNNC_MEMBER void advance() {
    if (!kMasked) return;
    restarts >>= 1;
    begins = false;
  }

  RNNC_MEMBER bool runs(int) const { return !kMasked || own; }
  RNNC_MEMBER void set_reset(int i, int, int s, real value) {
    if (kMasked && (!this->reversed || !starts)) this->reset[i][0][s] = value;
  }
  RNNC_MEMBER void select_before(int i, int, States& before, const States& state) const {
    repeat<Cell::kStates>([&](int s) {
      before[s] = kMasked && kReads[s] && (restarts & 2) ? this->reset[i][0][s] : state[s];
    });
  }
  RNNC_MEMBER real carried(int, real part) const {
    return kMasked && (restarts & 1) ? real(0) : part;
  }
  RNNC_MEMBER real arrived(int, real part) const {
    return kMasked && ((restarts & 1) || begins) ? real(0) : part;
  }
  template <typename Arguments>
  RNNC_MEMBER bool ends(const Arguments&) const {
    return kMasked && notable;
  }
  // Of step t.
  template <typename Arguments>
  RNNC_MEMBER void end_gradient(int i, const Arguments& a, int t, bool valid,
                                const States& d_state) {
    const bool is_edge = this->reversed && t + 1 == this->edge[0];
    repeat<Cell::kStates>([&](int s) {
      if ((restarts & 1) && !is_edge) this->d_reset[i][0][s] += SumOverTime(d_state[s]);
      if (is_edge && valid) {
        const int64 offset = state_offset(a, this->row[0], this->unit[i]);
        a.d_initial_states[s][offset] = to_element<Element>(d_state[s]);
      }
    });
  }
  // After all steps, once the gradient of the states before the first is complete.
  template <typename Arguments>
  RNNC_MEMBER void end(int i, const Arguments& a, bool valid, States& d_state) {
    if (!kMasked) return;
    if (valid && this->is_learned) end_gradient(i, a, -1, valid, d_state);
    repeat<Cell::kStates>([&](int s) { d_state[s] = carried(0, d_state[s]); });
    if (!this->reversed && this->edge[0] == 0) this->load_last(i, 0, a, d_state);
  }

 private:
  // A step needs two neighbouring bits of the 32 that the lanes of a warp load.
  static constexpr int kBlockSteps = 31;

  template <typename Arguments>
  RNNC_MEMBER void load_next_block(const Arguments& a, const TimeOrder& time, int64 tile_row,
                                   int steps) {
    const int lane = threadIdx.x & 31;
    const char* const tile = restarts_of(a, tile_row, this->reversed);
    blocks.load(tile, time, block - kBlockSteps + 1 - lane, steps);
  }
};

}  // namespace rnnc
