// Where a thread is in the backward of a cluster plan, and its copies of what a step reads.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/copy/tensors_copy.cuh"
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

// Copies of the rows that have an element per unit: the states before a step, inputs of the cell, and
// the gradients of the states after it that are given. The rows of all are one sequence of pieces,
// which the lanes of a warp share, as in TensorsCopy.
struct StateRowsCopy {
  static constexpr int kPieces = StateCopy::kRows * StateCopy::kPieces;  // per tensor
  static constexpr int kAlways = states_read(Cell::kStates) + kCopiedInputs;
  static constexpr int kCopies = ceil_div((kAlways + Cell::kStates) * kPieces, 32);

  const char* from[kCopies];  // of the last step that was copied
  const char* last[kCopies];  // of step 0
  int64 stride[kCopies];      // to the step that comes next, in bytes
  int offset_bytes[kCopies];  // of the destination, in the item's part of a stage; -1: none
  int pieces;                 // of all tensors that are there

  // `first_unit` is that of the item's warp; copies begin with the last step.
  RNNC_MEMBER void start(const BackwardArguments& a, const Position& at, int first_unit) {
    int tensors = kAlways;
    repeat<Cell::kStates>([&](int s) { tensors += a.d_states[s] != nullptr; });
    pieces = tensors * kPieces;
    const TimeOrder time = at.time(a);
    const int64 last_step = time.at(at.steps - 1), first_step = time.at(0);
    const int64 head_unit = at.head * Plan::kHeadDim;
    repeat<kCopies>([&](int i) {
      const int piece = pieces ? (at.lane + 32 * i) % pieces : 0;
      const int row_idx = piece % kPieces / StateCopy::kPieces;
      const int byte = piece % StateCopy::kPieces * StateCopy::kAccess;
      const int64 place = at.first_row + row_idx;
      const int64 row = row_at(a, place < a.batch ? place : 0);
      int tensor = piece / kPieces;  // among those that come next
      // `zero` is where step 0 lies, `now` the step that is copied first, both of row 0.
      const auto next = [&](bool is_there, const Element* now, const Element* zero, int64 row_stride,
                            int64 time_stride, int offset) {
        if (is_there && tensor-- == 0) {
          const int head_byte = first_unit * StateCopy::kUnitBytes + byte;
          const int in_head = head_byte < StateCopy::kHeadBytes ? head_byte : 0;
          stride[i] = kept(-time.stride(time_stride) * int64{sizeof(Element)});
          from[i] = reinterpret_cast<const char*>(now + row * row_stride) + in_head - stride[i];
          last[i] = reinterpret_cast<const char*>(zero + row * row_stride) + in_head;
          offset_bytes[i] = launder(offset + row_idx * StateCopy::kPitch + byte);
        }
      };
      unroll<Cell::kStates>([&](auto index) {
        constexpr int s = decltype(index)::value;
        // The state before the first step is in another tensor.
        const Element* const initial = a.initial_states[s] + head_unit;
        const Element* const before =
            a.states[s] + (last_step * at.step_size - time.stride(at.step_size) + head_unit);
        next(kReads[s], before, initial, at.plane, at.step_size, before_offset(s));
      });
#ifdef RNNC_UNWEIGHTED
      repeat<kCopiedInputs>([&](int k) {
        const UnweightedArguments& given = a.unweighted;
        const Element* const first = given.tensor[k] + at.head * given.head[k];
        next(true, first + last_step * given.time[k], first + first_step * given.time[k],
             given.row[k], given.time[k], input_offset(k));
      });
#endif
      unroll<Cell::kStates>([&](auto index) {
        constexpr int s = decltype(index)::value;
        const Element* const first = a.d_states[s] + head_unit;
        next(a.d_states[s] != nullptr, first + last_step * a.d_states_time[s],
             first + first_step * a.d_states_time[s], a.d_states_row[s], a.d_states_time[s],
             d_after_offset(s));
      });
      if (at.lane + 32 * i >= pieces) offset_bytes[i] = launder(-1);
    });
  }
  // Moves on to step t, the step before that of the last call.
  RNNC_MEMBER void advance(int t) {
    repeat<kCopies>([&](int i) { from[i] = t == 0 ? last[i] : from[i] + stride[i]; });
  }
  RNNC_MEMBER void issue(u32 stage) const {
    unroll<kCopies>([&](auto index) {
      constexpr int i = decltype(index)::value;
      if (32 * i >= kAlways * kPieces && pieces <= 32 * i) return;
      cp_async_if<StateCopy::kAccess, 0>(offset_bytes[i], stage + offset_bytes[i], from[i]);
    });
  }
};

// Copies of what a step reads, several steps ahead.
//
// NOTE: one instruction for the values that the forward kept and one for all rows, as a rule. Their
// addresses are computed ahead of them: what follows an instruction waits until it has read its
// addresses, some 40 ns, if it overwrites them. Lanes without a piece copy nothing.
struct StepCopies {
  SavedCopy::Pieces saved_pieces[kItems];
  SavedCopy saved[kItems];
  StateRowsCopy rows[kItems];
#ifdef RNNC_RESETS_AHEAD
  StateCopy::Pieces reset_pieces[kItems];
  StateCopy reset[kItems][Cell::kStates];
#endif

  // The first copies are of the last step.
  RNNC_MEMBER void start(const BackwardArguments& a, const Position& at, int item) {
    const int first = at.block_unit + (item * Plan::kWarps + at.warp) * kItemUnits;
    const int64 step = at.time(a).stride(at.step_size);
    const int64 after_last = at.time(a).at(at.steps - 1) * at.step_size + step;
    saved_pieces[item].prepare(a, at.lane, first, at.first_row, 1);
    saved[item].start(saved_pieces[item],
                      a.saved + (after_last + at.head * Plan::kHeadDim) * Cell::kSaved,
                      at.plane * Cell::kSaved);
    rows[item].start(a, at, first);
#ifdef RNNC_RESETS_AHEAD
    const int64 last = at.time(a).at(at.steps - 1);
    reset_pieces[item].prepare(a, at.lane, first, at.first_row, 1);
    repeat<Cell::kStates>([&](int s) {
      const Element* const value =
          reset_value(a, s, last, 0, at.head * Plan::kHeadDim, at.order.reversed);
      reset[item][s].start(reset_pieces[item],
                           value + at.time(a).stride(a.masks.reset_time[s]), a.masks.reset_row[s]);
    });
#endif
  }
  // Copies an item's data of step t, the step before that of the last call.
  RNNC_MEMBER void issue(const BackwardArguments& a, const Position& at, int item, int t,
                         char* stage) {
    saved[item].advance(-at.time(a).stride(at.step_size) * Cell::kSaved);
    rows[item].advance(t);
    const u32 to = shared_address(stage);
    saved[item].issue(saved_pieces[item], saved_pieces[item].in(to));
    rows[item].issue(to);
#ifdef RNNC_RESETS_AHEAD
    // In reverse there is no such value before the first step.
    unroll<Cell::kStates>([&](auto index) {  // so that offsets are constants
      constexpr int s = decltype(index)::value, reset_at = reset_offset(s);
      if constexpr (kReads[s]) {
        reset[item][s].advance(-at.time(a).stride(a.masks.reset_time[s]));
        if (t > 0 || !at.order.reversed) {
          reset[item][s].template issue<reset_at>(reset_pieces[item],
                                                  reset_pieces[item].in(to));
        }
      }
    });
#endif
  }
};

}  // namespace rnnc::cluster_backward
