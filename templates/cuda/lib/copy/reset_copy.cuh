// ResetCopy: copies of what rows may restart from before a step, where that differs between steps,
// from global to shared memory, several steps ahead.
//
// Each step has a copy, whether a row restarts or not: a test would need a branch, and a copy on
// demand would wait for a round trip to memory, which is longer than a step. The copies belong to
// the cp.async group of the step's inputs. Without kResetsAhead nothing here does anything.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// All states of the units and rows of `Rows`, a RowCopy or WarpCopy of one element per unit, copied
// by `threads` threads. In a stage the states lie one after the other.
template <class Plan, class Rows, int threads>
struct ResetCopy {
  static constexpr int kBytes = kResetsAhead ? Cell::kStates * Rows::kBytes : 0;  // per step
  static constexpr int kPieces = Rows::kBytes / Rows::kPitch * Rows::kPieces;  // per state
  static constexpr int kCopies = ceil_div(Cell::kStates * kPieces, threads);

  const char* from[kCopies];  // of the next step
  int64 stride[kCopies];      // to the step after it, in bytes
  int offset_bytes[kCopies];  // of the destination

  // Copies of step t come first. `thread` is one of those that copy. Units are those of a head from
  // first_unit on; rows are at the places first_row, first_row + row_step, ….
  // NOTE: threads beyond the last piece copy some piece again, and the place of units that do not
  // exist gets the head's first ones: a condition per copy costs a tenth of a short step.
  template <typename Arguments>
  RNNC_MEMBER void start(const Arguments& a, const TimeOrder& time, int t, int thread, int64 head,
                         int first_unit, int64 first_row, int row_step) {
    if (!kResetsAhead) return;
    repeat<kCopies>([&](int i) {
      const int piece = (thread + i * threads) % (Cell::kStates * kPieces);
      const int state = piece / kPieces, row_idx = piece % kPieces / Rows::kPieces;
      const int byte = piece % Rows::kPieces * Rows::kAccess;
      const int head_byte = first_unit * static_cast<int>(sizeof(Element)) + byte;
      offset_bytes[i] = launder(state * Rows::kBytes + row_idx * Rows::kPitch + byte);
      const int64 place = first_row + row_idx * row_step;
      const int64 row = row_at(a, place < a.batch ? place : 0);
      const Element* const value =
          reset_value(a, state, time.at(t), row, head * Plan::kHeadDim, time.reversed);
      constexpr int head_bytes = Plan::kHeadDim * static_cast<int>(sizeof(Element));
      from[i] = reinterpret_cast<const char*>(value) + (head_byte < head_bytes ? head_byte : 0);
      stride[i] = kept(time.stride(a.masks.reset_time[state]) * int64{sizeof(Element)});
    });
  }
  RNNC_MEMBER void issue(char* to) {
    if (!kResetsAhead) return;
    repeat<kCopies>([&](int i) {
      cp_async<Rows::kAccess>(to + offset_bytes[i], from[i]);
      from[i] += stride[i];
    });
  }
  static RNNC_MEMBER real read(const char* stage, int state, int offset_bytes) {
    return kResetsAhead ? Rows::read(stage + state * Rows::kBytes, offset_bytes)[0] : real(0);
  }
};

// Loads those of one item a step before they are needed, for kernels whose step is longer than a
// round trip to L2.
struct ResetLoad {
  Vec<Element, 1> value[Cell::kStates];

  // Of state s before step t. `ahead` steps further is the step whose values L2 shall have next; 0:
  // none.
  template <typename Arguments>
  RNNC_MEMBER void load(const Arguments& a, const TimeOrder& time, int s, int64 t, int64 row,
                        int64 unit, int64 ahead) {
    if (!kResetsAhead) return;
    const Element* const from = reset_value(a, s, time.at(t), row, unit, time.reversed);
    value[s].load(from);
    if (ahead) prefetch_l2(from + time.stride(a.masks.reset_time[s]) * ahead);
  }
  RNNC_MEMBER real operator[](int s) const { return kResetsAhead ? value[s][0] : real(0); }
};

}  // namespace rnnc
