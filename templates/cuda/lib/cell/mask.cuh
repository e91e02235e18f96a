// Masks: how many steps each batch row runs, and before which it restarts from the reset values.
//
// A row with a length runs through its padding too, whatever the padding holds, NaN included: the
// columns of a product do not mix, so no other row sees the results. Where results of several rows
// or steps meet, and where results are stored, a select drops those of padding; nothing multiplies
// them by zero. The boundary between padding and the row's own steps is the row's edge.
//
// In a source without masks all rows run all steps, each from the states after the last one:
// nothing here does anything then (`if (!kMasked)`), and what it would keep takes no register.
#pragma once

#include "lib/cell/arguments.cuh"
#include "lib/cell/switches.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

// Tiles have batch rows by their places, which are in the order of their lengths, the longest
// first: rows of one tile end at about the same time, and the tiles that start last end first.
// Results lie where the rows do. Bits of restarts are in the order of places, since a tile reads
// eight at once.
//
// The batch row at a place.
template <typename Arguments, typename Place>
RNNC_INLINE Place row_at(const Arguments& a, Place place) {
  return a.masks.order ? static_cast<Place>(__ldg(a.masks.order + place)) : place;
}
// The place of a batch row.
template <typename Arguments>
RNNC_INLINE int64 place_of(const Arguments& a, int64 row) {
  return a.masks.order ? __ldg(a.masks.order + a.batch + row) : row;
}

template <typename Arguments>
RNNC_INLINE int row_steps(const Arguments& a, int64 row) {
  return a.masks.longest ? __ldg(a.masks.longest + row) : static_cast<int>(a.steps);
}
// How many steps a tile of batch rows runs: as many as its longest row, and at least one if there
// is any. Those come first in memory, in both directions of time.
struct TileSteps {
  int count;

  TileSteps() = default;
  template <typename Arguments>
  RNNC_MEMBER TileSteps(const Arguments& a, int64 first_row, int rows)
      : count(static_cast<int>(a.steps)) {
    if (!kMasked || !a.masks.longest) return;
    int longest = 1;
    if (a.masks.order && first_row < a.batch) {
      // The first row is the longest.
      longest = maximum(longest, row_steps(a, row_at(a, first_row)));
      rows = 0;
    }
    for (int64 row = first_row; row < first_row + rows && row < a.batch; ++row) {
      longest = maximum(longest, row_steps(a, row));
    }
    count = minimum(longest, count);
  }
  template <typename Arguments>
  RNNC_MEMBER int64 of(const Arguments& a) const {
    return kMasked ? count : a.steps;
  }
};

// The edge of a row in a tile that runs `steps`: the step before which its padding begins or, if
// the cell runs from the last step in memory to the first, before which its padding ends.
template <typename Arguments>
RNNC_INLINE int edge_of(const Arguments& a, int64 row, int64 steps, bool reversed) {
  if (!a.masks.longest) return reversed ? -1 : static_cast<int>(steps);
  const int count = row_steps(a, row);
  return reversed ? static_cast<int>(steps) - count : count;
}
// Whether x is true in any lane of a warp. NOTE: a vote behind a branch that is the same for the
// whole grid. Without the vote the compiler would merge both conditions and test them in every
// thread and step.
RNNC_INLINE bool any_lane(bool x) { return __any_sync(~0u, x); }
template <int n>
RNNC_INLINE bool is_any(const int (&edge)[n], int t) {
  bool any = false;
  repeat<n>([&](int j) { any |= edge[j] == t; });
  return any;
}
RNNC_INLINE bool is_own_step(int t, int edge, bool reversed) {
  return reversed ? t >= edge : t < edge;
}

// Which of eight rows restart before a step: a byte per step. There are kMaskPadding bytes of zeros
// on both sides of all steps. Those of the other direction of the launch follow those of all rows.
constexpr int kMaskRows = 8, kMaskPadding = 4;
RNNC_INLINE u32 restart_bit(int64 place) { return 1u << static_cast<int>(place) % kMaskRows; }
// The bytes of the rows beside that at a place; the first step in memory is aligned to 4 bytes.
template <typename Arguments>
RNNC_INLINE const char* restarts_of(const Arguments& a, int64 place, bool reversed) {
  const int64 pitch = (a.steps + 3) / 4 * 4 + 2 * kMaskPadding;
  const int64 before = kBothDirections && reversed ? (a.batch + kMaskRows - 1) / kMaskRows : 0;
  const int64 group = place / kMaskRows + before;
  const unsigned char* const rows = a.masks.restarts + group * pitch + kMaskPadding;
  return launder(reinterpret_cast<const char*>(rows));
}

// Copies those bytes into the padding of a step's rows that `Copy` copies. NOTE: a load into a
// register would cost a round trip to memory in each step: the compiler moves the register at once,
// for the next iteration, and the move waits for the load.
template <class Copy>
struct RestartsCopy {
  static constexpr bool kStaged = kMasked && Copy::kPitch >= Copy::kUsed + 4;
  const char* bytes;  // by the place of a step in memory
  int copies;

  // One of the threads that wait for a stage copies.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int64 first_row, bool is_one) {
    if (!kMasked) return;
    bytes = restarts_of(a, first_row, time.reversed);
    copies = launder(static_cast<int>(is_one));
  }
  RNNC_MEMBER void issue(char* stage, int64 place) const {
    if (kStaged && copies) cp_async<4>(stage + Copy::kPitch - 4, bytes + (place & ~int64{3}));
  }
  RNNC_MEMBER u32 read(const char* stage, int64 place) const {
    if constexpr (!kMasked) return 0;
    if constexpr (!kStaged) return ld_global_nc_u8(bytes + place);
    return static_cast<unsigned char>(stage[Copy::kPitch - 4 + (place & 3)]);
  }
};
// Loads the byte of a step one step before it is needed.
struct RestartsAhead {
  const char* from;  // of the step that is loaded next
  u32 coming;

  // Those of step t first; the next ones are `by` places further on.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const TimeOrder& time, int64 place, int64 t,
                         int64 by) {
    if (!kMasked) return;
    from = restarts_of(a, place, time.reversed) + time.at(t);
    next(by);
  }
  RNNC_MEMBER u32 next(int64 by) {
    if (!kMasked) return 0;
    const u32 found = coming;
    coming = ld_global_nc_u8(from);
    from += by;
    return found;
  }
};

// Loads the bytes of a block of 32 steps at once, one per lane of a warp. The loads begin one block
// ahead: a warp that used a byte at once would wait for a round trip to memory.
struct RestartsInBlocks {
  u32 bytes, coming;  // of this lane's step, and of its step in the next block

  // Step t, a lane's of the next block, of the rows that `restarts_of` gave.
  RNNC_MEMBER void load(const char* rows, const TimeOrder& time, int t, int steps) {
    const bool exists = t >= 0 && t < steps;
    coming = exists ? ld_global_nc_u8(rows + time.at(t)) : 0;
  }
  // found(r, bits) for row r of the tile: bit i of `bits` is that of lane i.
  template <typename Found>
  RNNC_MEMBER void each_row(const Found& found) const {
    // NOTE: not within a branch, though once per block would do: the compiler could not know that a
    // warp's lanes stay together.
    repeat<kMaskRows>([&](int r) { found(r, __ballot_sync(~0u, bytes >> r & 1)); });
  }
};

// A value that a kernel with masks keeps in a register. Otherwise the compiler computes it again in
// each step.
RNNC_INLINE int64 kept(int64 x) { return kMasked ? launder(x) : x; }

// Where the reset value of an item lies: of a state, at a place in memory, of a row, and of a unit
// in [N, D]. In reverse a row restarts with the value of the place after it: the tensor of a launch
// of one direction begins there.
template <typename Arguments>
RNNC_INLINE const Element* reset_value(const Arguments& a, int state, int64 place, int64 row,
                                       int64 unit, bool reversed) {
  const int64 time = kBothDirections && reversed ? place + 1 : place;
  return a.masks.reset_to[state] + time * a.masks.reset_time[state] +
         row * a.masks.reset_row[state] + unit;
}
// Its place in a tensor of states, [B, N, D].
template <typename Arguments>
RNNC_INLINE int64 state_offset(const Arguments& a, int64 row, int64 unit) {
  return row * (a.heads * a.dim) + unit;
}

}  // namespace rnnc
