// Masks: which steps each batch row runs, and the states that it runs them from.
//
// Of each step and row there is one byte, made for one direction of time. A generated source that
// does not define RNNC_MASKED has none: all rows run all steps, each from the states after the last
// one, and nothing here does anything.
#pragma once

#include "lib/cell/arguments.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

#ifdef RNNC_MASKED

constexpr bool kMasked = true;

// What the byte of a step says.
constexpr u32 kHold = 0;     // the row does not run the step: its states stand still
constexpr u32 kRun = 1;      // from the states after the last step
constexpr u32 kRestart = 2;  // from the reset values
constexpr u32 kFirst = 3;    // from the initial states: the first step that the row runs

// How many steps a tile of batch rows runs: as many as its longest row, and at least one if there is
// any. Those come first in memory, in both directions of time.
struct TileSteps {
  int count;

  TileSteps() = default;
  template <typename Arguments>
  RNNC_MEMBER TileSteps(const Arguments& a, int64 first_row, int rows)
      : count(static_cast<int>(a.steps)) {
    if (!a.masks.longest) return;
    int longest = 1;
    for (int64 row = first_row; row < first_row + rows && row < a.batch; ++row) {
      longest = maximum(longest, __ldg(a.masks.longest + row));
    }
    count = minimum(longest, count);
  }
  template <typename Arguments>
  RNNC_MEMBER int64 of(const Arguments&) const {
    return count;
  }
};

// The byte of a row for the step at a place in memory.
template <typename Arguments>
RNNC_INLINE u32 load_mask(const Arguments& a, int64 t, int64 row) {
  return ld_global_nc_u8(a.masks.steps + t * a.batch + row);
}

// Where the reset value of an item lies: of a state, at a place in memory, of a row, and of a unit
// in [N, D].
template <typename Arguments>
RNNC_INLINE const Element* reset_value(const Arguments& a, int state, int64 t, int64 row,
                                       int64 unit) {
  return a.masks.reset_to[state] + t * a.masks.reset_time[state] + row * a.masks.reset_row[state] +
         unit;
}

#else

constexpr bool kMasked = false;

struct TileSteps {
  TileSteps() = default;
  template <typename Arguments>
  RNNC_MEMBER TileSteps(const Arguments&, int64, int) {}
  template <typename Arguments>
  RNNC_MEMBER int64 of(const Arguments& a) const {
    return a.steps;
  }
};

#endif

}  // namespace rnnc
