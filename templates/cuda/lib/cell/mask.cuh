// Masks: which steps each batch row runs, and the states that it runs them from.
//
// Of each step and row there are two bits, made for one direction of time. A generated source that
// does not define RNNC_MASKED has none: all rows run all steps, each from the states after the last
// one, and nothing here does anything.
#pragma once

#include "lib/cell/arguments.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

#ifdef RNNC_MASKED

constexpr bool kMasked = true;

#ifdef RNNC_REVERSE_HALF
#error "a call with masks has one direction of time"
#endif

// What the bits of a step say.
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

constexpr int kMaskSteps = 16;  // per word

// The word of a row that begins with step kMaskSteps * i in memory; another one, if there is none.
template <typename Arguments>
RNNC_INLINE u32 load_mask_word(const Arguments& a, int i, int row) {
  const int last = (static_cast<int>(a.steps) - 1) / kMaskSteps;
  u32 word[1];
  ld_global_nc(word, a.masks.steps + maximum(0, minimum(i, last)) * a.batch + row);
  return word[0];
}
RNNC_INLINE u32 mask_in_word(u32 word, int t) { return word >> t % kMaskSteps * 2 & 3; }

// How a row takes the step at a place in memory.
template <typename Arguments>
RNNC_INLINE u32 load_mask(const Arguments& a, int64 t, int row) {
  return mask_in_word(load_mask_word(a, static_cast<int>(t) / kMaskSteps, row),
                      static_cast<int>(t));
}

// How a row takes one step after the other. A word is loaded half a word ahead, into the register
// that it is read from: so that no step waits for it.
struct MaskWalk {
  u32 word, following;

  // The first step, at place t; `by`, 1 or -1, leads to the place of the next.
  template <typename Arguments>
  RNNC_MEMBER u32 begin(const Arguments& a, int64 t, int64 by, int row) {
    const int i = static_cast<int>(t) / kMaskSteps;
    word = load_mask_word(a, i, row);
    following = load_mask_word(a, i + static_cast<int>(by), row);
    return mask_in_word(word, static_cast<int>(t));
  }
  // The next one, at place t.
  template <typename Arguments>
  RNNC_MEMBER u32 next(const Arguments& a, int64 t, int64 by, int row) {
    const int place = static_cast<int>(t);
    if (place % kMaskSteps == (by > 0 ? 0 : kMaskSteps - 1)) {
      word = following;
    }
    if (place % kMaskSteps == (by > 0 ? kMaskSteps / 2 : kMaskSteps / 2 - 1)) {
      following = load_mask_word(a, place / kMaskSteps + static_cast<int>(by), row);
    }
    return mask_in_word(word, place);
  }
};

// Whether reset values differ between steps.
template <typename Arguments>
RNNC_INLINE bool resets_vary(const Arguments& a) {
  bool vary = false;
  repeat<Cell::kStates>([&](int s) { vary |= a.masks.reset_time[s] != 0; });
  return vary;
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
