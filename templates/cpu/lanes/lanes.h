// Blocks of units, for cells with loops: the passes of a loop run for all units of a block at once.
#pragma once

#include <type_traits>

#include "layout.h"
#include "math.h"

// A function of a block: compiled once, though several functions call it.
#define RNNC_BLOCK static __attribute__((noinline))

namespace rnnc {

// Two vectors: while the operations of one wait for each other, the other has some to do.
constexpr int64_t kBlock = 2 * kLanes;

// A value and a condition of each unit of a block. Conditions are as long as values: loops over values
// of several lengths do not always become vector code.
typedef real Lanes[kBlock] __attribute__((aligned(kVectorBytes)));
typedef std::conditional_t<sizeof(real) == 4, int32_t, int64_t> Conditions[kBlock]
    __attribute__((aligned(kVectorBytes)));

// For what a function does not read.
constexpr Lanes kUnread = {};

// The values of some units in memory. The last of them stands for units that are not there, so that
// all lanes compute something usual.
RNNC_BLOCK void load_lanes(const real* from, int64_t count, Lanes& to) {
  copy_row(from, to, count);
  for (int64_t lane = count; lane < kBlock; ++lane) to[lane] = from[count - 1];
}

struct Loaded {
  Loaded(const real* from, int64_t count) { load_lanes(from, count, lanes); }
  operator const Lanes&() const { return lanes; }
  Lanes lanes;
};

}  // namespace rnnc
