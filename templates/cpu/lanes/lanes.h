// Blocks of units, for cells with loops: the passes of a loop run for all units of a block at once.
#pragma once

#include <type_traits>

#include "layout.h"
#include "math.h"

namespace rnnc {

// Two vectors: while the operations of one wait for each other, the other has some to do.
constexpr int64_t kBlock = 2 * kLanes;

// A value and a condition of each unit of a block.
typedef real Lanes[kBlock] __attribute__((aligned(kVectorBytes)));
typedef std::conditional_t<sizeof(real) == 4, int32_t, int64_t> Conditions[kBlock]
    __attribute__((aligned(kVectorBytes)));

// For what a function does not read.
constexpr Lanes kUnread = {};

// The values of some units in memory. The last of them stands for units that are not there, so that
// all lanes compute something usual.
static __attribute__((noinline)) void load_some(const real* from, int64_t count, Lanes& to) {
  for (int64_t lane = 0; lane < kBlock; ++lane) to[lane] = from[smaller(lane, count - 1)];
}

struct Loaded {
  Lanes lanes;

  Loaded(const real* from, int64_t count) {
    if (count == kBlock) {
      std::memcpy(lanes, from, sizeof lanes);
    } else {
      load_some(from, count, lanes);
    }
  }
  operator const Lanes&() const { return lanes; }
};

RNNC_INLINE void store_lanes(const Lanes& from, real* to, int64_t count) {
  if (count == kBlock) {
    std::memcpy(to, from, sizeof from);
  } else {
    copy_row(from, to, count);
  }
}

}  // namespace rnnc
