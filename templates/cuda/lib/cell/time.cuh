// TimeOrder: where the steps of a kernel lie in tensors over time.
//
// A kernel counts steps in the order in which they run; a backward counts them down. In memory a
// tensor over time, [T, ...], has the caller's order. The generated source may define RNNC_REVERSE:
// then the cell runs from the last step in memory to the first. Or RNNC_REVERSE_HALF: then the
// second half of the heads does, which is the other direction of a layer.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

#if defined(RNNC_REVERSE) || defined(RNNC_REVERSE_HALF)
struct TimeOrder {
  int64 last;  // step in memory
#ifdef RNNC_REVERSE_HALF
  bool reversed;
#else
  static constexpr bool reversed = true;
#endif

  TimeOrder() = default;
  // Of one of so many heads.
  RNNC_MEMBER TimeOrder(int64 steps, int64 head, int64 heads) : last(steps - 1) {
#ifdef RNNC_REVERSE_HALF
    reversed = 2 * head >= heads;
#endif
  }
  // The place in memory of step t.
  RNNC_MEMBER int64 at(int64 t) const { return reversed ? last - t : t; }
  // The distance from a step to the one that runs after it, if steps are so far apart in memory.
  RNNC_MEMBER int64 stride(int64 step_size) const { return reversed ? -step_size : step_size; }
};
#else
struct TimeOrder {
  TimeOrder() = default;
  RNNC_MEMBER TimeOrder(int64, int64, int64) {}
  RNNC_MEMBER int64 at(int64 t) const { return t; }
  RNNC_MEMBER int64 stride(int64 step_size) const { return step_size; }
};
#endif

}  // namespace rnnc
