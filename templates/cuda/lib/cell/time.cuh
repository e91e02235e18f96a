// TimeOrder: where the steps of a kernel lie in tensors over time.
//
// A kernel counts steps in the order in which they run; a backward counts them down. In memory a
// tensor over time, [T, ...], has the caller's order, from which that of the steps may differ
// (kReverse and kBothDirections).
#pragma once

#include "lib/cell/switches.cuh"
#include "lib/ptx/types.cuh"

namespace rnnc {

// Whether a head runs from the last step in memory to the first. The compiler knows it, unless both
// directions of a layer run in one launch: then it follows from the head, one of so many.
struct Order {
#ifdef RNNC_REVERSE_HALF
  bool reversed;
  Order() = default;
  RNNC_MEMBER explicit Order(bool is_reversed) : reversed(is_reversed) {}
  RNNC_MEMBER Order(int64 head, int64 heads) : reversed(2 * head >= heads) {}
#else
  static constexpr bool reversed = kReverse;
  Order() = default;
  RNNC_MEMBER Order(int64, int64) {}
#endif
};

// Calls body(order), which runs one of so many heads. NOTE: with masks and both directions in one
// launch there is code of each, in which the compiler knows the direction. One code for both has
// what is rare in either between two parts of steps, and costs up to 12 % more.
template <typename Body>
RNNC_INLINE void in_order(int64 head, int64 heads, const Body& body) {
#if defined(RNNC_REVERSE_HALF) && defined(RNNC_MASKED)
  if (Order(head, heads).reversed) {
    body(Order(true));
  } else {
    body(Order(false));
  }
#else
  body(Order(head, heads));
#endif
}

#if defined(RNNC_REVERSE) || defined(RNNC_REVERSE_HALF)
struct TimeOrder : Order {
  int64 last;  // step in memory

  TimeOrder() = default;
  RNNC_MEMBER TimeOrder(int64 steps, const Order& order) : Order(order), last(steps - 1) {}
  // The place in memory of step t.
  RNNC_MEMBER int64 at(int64 t) const { return reversed ? last - t : t; }
  // The distance from a step to the one that runs after it, if steps are so far apart in memory.
  RNNC_MEMBER int64 stride(int64 step_size) const { return reversed ? -step_size : step_size; }
};
#else
struct TimeOrder : Order {
  TimeOrder() = default;
  RNNC_MEMBER TimeOrder(int64, const Order&) {}
  RNNC_MEMBER int64 at(int64 t) const { return t; }
  RNNC_MEMBER int64 stride(int64 step_size) const { return step_size; }
};
#endif

}  // namespace rnnc
