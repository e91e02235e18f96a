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

  const char* from[kCopies];  // of the next step
  const char* last[kCopies];  // of step 0
  int64 stride[kCopies];      // to the step that comes next, in bytes
  int offset_bytes[kCopies];  // of the destination, in the item's part of a stage
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
          from[i] = reinterpret_cast<const char*>(now + row * row_stride) + in_head;
          last[i] = reinterpret_cast<const char*>(zero + row * row_stride) + in_head;
          stride[i] = kept(-time.stride(time_stride) * int64{sizeof(Element)});
          offset_bytes[i] = launder(offset + row_idx * StateCopy::kPitch + byte);
        }
      };
      unroll<Cell::kStates>([&](auto index) {
        constexpr int s = decltype(index)::value;
        // The state before the first step is in another tensor.
        const Element* const initial = a.initial_states[s] + head_unit;
        const Element* const before =
            a.states[s] + (last_step * at.step_size - time.stride(at.step_size) + head_unit);
        next(kReads[s], at.steps > 1 ? before : initial, initial, at.plane, at.step_size,
             before_offset(s));
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
    });
  }
  // Copies the data of step t, the step before that of the last call.
  RNNC_MEMBER void issue(int t, char* stage) {
    unroll<kCopies>([&](auto index) {
      constexpr int i = decltype(index)::value;
      if (32 * i >= kAlways * kPieces && pieces <= 32 * i) return;
      cp_async<StateCopy::kAccess>(stage + offset_bytes[i], from[i]);
      from[i] = t == 1 ? last[i] : from[i] + stride[i];
    });
  }
};

// Copies of what a step reads, several steps ahead: by few instructions that no branch divides.
struct JoinedCopies {
  TensorsCopy<SavedCopy, Cell::kSaved ? 1 : 0, 32> saved[kItems];
  StateRowsCopy rows[kItems];

  // The first copies are of the last step; `first` is the first unit of the item's warp.
  RNNC_MEMBER void start(const BackwardArguments& a, const Position& at, int item, int first) {
    const int64 last = at.time(a).at(at.steps - 1);
    saved[item].start(
        a, at.lane, first, at.first_row, 1,
        [&](int, int64 row) {
          const int64 unit = last * at.step_size + row * at.plane + at.head * Plan::kHeadDim;
          return a.saved + unit * Cell::kSaved;
        },
        [&](int) { return -at.time(a).stride(at.step_size) * Cell::kSaved; });
    rows[item].start(a, at, first);
  }
  // Copies an item's data of step t, the step before that of the last call.
  RNNC_MEMBER void issue(const BackwardArguments&, const Position&, int item, int t, char* stage) {
    saved[item].issue(stage);
    rows[item].issue(t, stage);
  }
};

// The same, by an instruction for each tensor.
struct SeparateCopies {
  SavedCopy::Pieces saved_pieces[kItems];
  StateCopy::Pieces state_pieces[kItems];
  SavedCopy saved[kItems];
  StateCopy before[kItems][Cell::kStates], initial[kItems][Cell::kStates],
      d_states[kItems][Cell::kStates];
  TensorsCopy<StateCopy, kCopiedInputs, 32> inputs[kItems];

  RNNC_MEMBER void start(const BackwardArguments& a, const Position& at, int item, int first) {
    const int64 last = at.time(a).at(at.steps - 1);
    const int64 last_step = last * at.step_size + at.head * Plan::kHeadDim;
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
    });
#ifdef RNNC_UNWEIGHTED
    const UnweightedArguments& given = a.unweighted;
    inputs[item].start(
        a, at.lane, first, at.first_row, 1,
        [&](int k, int64 row) {
          return given.tensor[k] + last * given.time[k] + at.head * given.head[k] +
                 row * given.row[k];
        },
        [&](int k) { return unweighted_stride(a, at.time(a), k); });
#endif
  }
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
      }
      if (a.d_states[s]) {
        d_states[item][s].issue(state_pieces[item], stage + d_at);
        d_states[item][s].advance(-at.time(a).stride(a.d_states_time[s]));
      }
    });
    inputs[item].issue(stage + input_offset(0));
  }
};

// NOTE: the next part of a step waits until an instruction has read its addresses, so few are
// better: in a cluster of 4 a step of an LSTM takes 30 ns less, with zoneout 100. In a cluster of 16
// it takes 85 ns more, and 50 with zoneout (H100), where a warp pushes four tiles just before.
template <bool joined>
struct StepCopiesBy : Either<joined, JoinedCopies, SeparateCopies> {
  using Copies = Either<joined, JoinedCopies, SeparateCopies>;
#ifdef RNNC_RESETS_AHEAD
  StateCopy::Pieces reset_pieces[kItems];
  StateCopy reset[kItems][Cell::kStates];
#endif

  // The first copies are of the last step.
  RNNC_MEMBER void start(const BackwardArguments& a, const Position& at, int item) {
    const int first = at.block_unit + (item * Plan::kWarps + at.warp) * kItemUnits;
    Copies::start(a, at, item, first);
#ifdef RNNC_RESETS_AHEAD
    const int64 last = at.time(a).at(at.steps - 1);
    reset_pieces[item].prepare(a, at.lane, first, at.first_row, 1);
    repeat<Cell::kStates>([&](int s) {
      reset[item][s].start(reset_pieces[item],
                           reset_value(a, s, last, 0, at.head * Plan::kHeadDim, at.order.reversed),
                           a.masks.reset_row[s]);
    });
#endif
  }
  // Copies an item's data of step t, the step before that of the last call.
  RNNC_MEMBER void issue(const BackwardArguments& a, const Position& at, int item, int t,
                         char* stage) {
    Copies::issue(a, at, item, t, stage);
#ifdef RNNC_RESETS_AHEAD
    // In reverse there is no such value before the first step.
    unroll<Cell::kStates>([&](auto index) {  // so that offsets are constants
      constexpr int s = decltype(index)::value, reset_at = reset_offset(s);
      if constexpr (kReads[s]) {
        if (t > 0 || !at.order.reversed) reset[item][s].issue(reset_pieces[item], stage + reset_at);
        reset[item][s].advance(-at.time(a).stride(a.masks.reset_time[s]));
      }
    });
#endif
  }
};
using StepCopies = StepCopiesBy<kTiles <= 4>;

}  // namespace rnnc::cluster_backward
