// How rows take a step. A mask selects, it never multiplies: padding may hold NaN.
#pragma once

#include "layout.h"

namespace rnnc {

// A step that is held does not run: the states stand still, outputs and gradients of gates are zero.
constexpr uint8_t kHold = 0;
constexpr uint8_t kRestart = 2;  // a step that runs from the reset values
constexpr uint8_t kFirst = 3;    // from the initial states; any other runs from the step before it

// Mirrored in runtime/cpu/masks.py.
struct MaskArguments {
  const uint8_t* steps;          // [T][B]
  const real* reset[kStates];    // values after a reset, by the strides below; units are adjacent
  int64_t reset_times[kStates];  // strides of time, batch and head, in elements
  int64_t reset_rows[kStates];
  int64_t reset_heads[kStates];
  real* d_reset[kStates];  // [B][N][D] each, to which a backward adds; or null
};

struct MaskedForwardArguments : ForwardArguments {
  MaskArguments masks;
};

struct MaskedBackwardArguments : BackwardArguments {
  MaskArguments masks;
};

// The masks of a task's head.
class HeadMasks {
 public:
  HeadMasks(const MaskArguments& masks, const Sizes& sizes, const TimeOrder& time, int64_t head)
      : masks_(masks), sizes_(sizes), time_(time), head_(head) {}

  uint8_t at(int64_t step, int64_t row) const {
    return masks_.steps[time_.at(step) * sizes_.batch + row];
  }

  // A state of a row before a step that it runs, [D].
  template <class States>
  const real* before(int64_t step, int64_t row, int state, const real* initial,
                     States states) const {
    const uint8_t how = at(step, row);
    if (how == kRestart) {
      return masks_.reset[state] + time_.at(step) * masks_.reset_times[state] +
             row * masks_.reset_rows[state] + head_ * masks_.reset_heads[state];
    }
    const int64_t stride = sizes_.batch * sizes_.heads * sizes_.dim;
    return states_before(how == kFirst ? 0 : step, time_, initial, states, stride) +
           (row * sizes_.heads + head_) * sizes_.dim;
  }

 private:
  const MaskArguments& masks_;
  const Sizes& sizes_;
  const TimeOrder& time_;
  const int64_t head_;
};

}  // namespace rnnc
