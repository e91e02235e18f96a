// Where a thread is in the backward of a cluster plan, and its copies of what a step reads.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/exchange/cluster_layout_backward.cuh"

namespace rnnc::cluster_backward {

// Where a thread and its block are. Partial s of lane l of a tile belongs to item 4 l + s: unit 2
// (l / 4) + s / 2 and column 2 (l % 4) + s % 2. So 32 items are 4 units of all columns.
struct Position {
  TileSteps tile;
  Order order;
  int steps, lane, warp, item_unit, column, block_unit;
  int64 head, first_row, plane, step_size;

  RNNC_MEMBER void load(const BackwardArguments& a, u32 rank, const Order& head_order) {
    order = head_order;
    // NOTE: laundered, or the compiler would derive offsets from the index again in every step.
    lane = launder(static_cast<int>(threadIdx.x & 31));
    warp = threadIdx.x >> 5;
    item_unit = 2 * (lane >> 4) + (lane >> 1 & 1);
    column = (lane >> 2 & 3) * 2 + (lane & 1);
    block_unit = static_cast<int>(rank) * Plan::kUnits;
    head = a.first_head + blockIdx.y;
    first_row = (a.first_tile + blockIdx.z) * kColumns;
    tile = TileSteps(a, first_row, kColumns);
    steps = static_cast<int>(tile.of(a));
    plane = a.heads * Plan::kHeadDim;
    step_size = a.batch * plane;
  }
  RNNC_MEMBER TimeOrder time(const BackwardArguments& a) const {
    return TimeOrder(tile.of(a), order);
  }
};

// Copies of what a step reads, several steps ahead.
struct StepCopies {
  SavedCopy::Pieces saved_pieces[kItems];
  StateCopy::Pieces state_pieces[kItems];
  SavedCopy saved[kItems];
  StateCopy before[kItems][Cell::kStates], initial[kItems][Cell::kStates],
      d_states[kItems][Cell::kStates];
#ifdef RNNC_RESETS_AHEAD
  StateCopy reset[kItems][Cell::kStates];
#endif

  // The first copies are of the last step.
  RNNC_MEMBER void start(const BackwardArguments& a, const Position& at, int item) {
    const int64 last = at.time(a).at(at.steps - 1);
    const int64 last_step = last * at.step_size + at.head * Plan::kHeadDim;
    const int first = at.block_unit + (item * Plan::kWarps + at.warp) * kItemUnits;
    saved_pieces[item].prepare(a, at.lane, first, at.first_row, 1);
    state_pieces[item].prepare(a, at.lane, first, at.first_row, 1);
    saved[item].start(saved_pieces[item], a.saved + last_step * Cell::kSaved,
                      at.plane * Cell::kSaved);
    repeat<Cell::kStates>([&](int s) {
      const Element* states = at.steps > 1
                                  ? a.states[s] + (last_step - at.time(a).stride(at.step_size))
                                  : a.initial_states[s] + at.head * Plan::kHeadDim;
      before[item][s].start(state_pieces[item], states, at.plane);
      initial[item][s].start(state_pieces[item], a.initial_states[s] + at.head * Plan::kHeadDim,
                             at.plane);
      d_states[item][s].start(
          state_pieces[item],
          a.d_states[s] + last * a.d_states_time[s] + at.head * Plan::kHeadDim,
          a.d_states_row[s]);
#ifdef RNNC_RESETS_AHEAD
      reset[item][s].start(state_pieces[item],
                           reset_value(a, s, last, 0, at.head * Plan::kHeadDim, at.order.reversed),
                           a.masks.reset_row[s]);
#endif
    });
  }
  // Copies an item's data of step t, the step before that of the last call.
  RNNC_MEMBER void issue(const BackwardArguments& a, const Position& at, int item, int t,
                         char* stage) {
    saved[item].issue(saved_pieces[item], stage);
    saved[item].advance(-at.time(a).stride(at.step_size) * Cell::kSaved);
    unroll<Cell::kStates>([&](auto index) {  // so that offsets are constants
      constexpr int s = decltype(index)::value, before_at = before_offset(s),
                    d_at = d_after_offset(s);
      if constexpr (kReads[s]) {
        before[item][s].issue(state_pieces[item], stage + before_at);
        before[item][s].advance(-at.time(a).stride(at.step_size));
        // The state before the first step is in another tensor.
        if (t == 1) assign(before[item][s].from, initial[item][s].from);
#ifdef RNNC_RESETS_AHEAD
        // In reverse there is no such value before the first step.
        constexpr int reset_at = reset_offset(s);
        if (t > 0 || !at.order.reversed) {
          reset[item][s].issue(state_pieces[item], stage + reset_at);
        }
        reset[item][s].advance(-at.time(a).stride(a.masks.reset_time[s]));
#endif
      }
      if (a.d_states[s]) {
        d_states[item][s].issue(state_pieces[item], stage + d_at);
        d_states[item][s].advance(-at.time(a).stride(a.d_states_time[s]));
      }
    });
  }
};

}  // namespace rnnc::cluster_backward
