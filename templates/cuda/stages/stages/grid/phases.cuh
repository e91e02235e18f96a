// The order of stages, phases and items in a step of a grid plan: all phases take a stage before
// any takes the next. While the results of one are in flight to the other blocks, the others are
// computed.
#pragma once

#include "lib/stages/clock.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// When a warp publishes parts of statistics, and when it polls for those of others. A poll takes a
// round trip to L2, and one that finds nothing delays the next: so none is sent before what other
// blocks published at the same time can have arrived. A step of 1 x 768 on an H100 took 3.41 us
// without a wait, and 3.07, 3.05, 3.19 and 3.34 after 150, 250, 350 and 450 cycles. Products poll at
// once: a wait made steps of LEM longer. With several phases there is other work meanwhile.
constexpr u32 kHopCycles = 250;

template <class Plan>
struct Hop {
  u32 begin = 0;

  RNNC_MEMBER void published() {
    if (Plan::kPhases == 1) begin = cycles();
  }
  RNNC_MEMBER void wait() const {
    while (Plan::kPhases == 1 && cycles() - begin < kHopCycles) {
    }
  }
};

// body(phase) for each phase.
template <class Plan, typename Body>
RNNC_INLINE void for_phases(const Body& body) {
#pragma unroll 1
  for (int phase = 0; phase < Plan::kPhases; ++phase) body(phase);
}
// body(stage, phase) for each stage but the first.
template <class Plan, typename Body>
RNNC_INLINE void for_later_stages(const Body& body) {
  unroll<Cell::kStages - 1>([&](auto before) {
    for_phases<Plan>([&](int phase) { body(Index<decltype(before)::value + 1>{}, phase); });
  });
}
// body(item, what is known of it within a step) for a thread's items of a phase.
template <typename Item, typename Known, int n, typename Body>
RNNC_INLINE void for_known_items(Item (&items)[n], Known (&known)[n], int phase, const Body& body) {
  repeat<n>([&](int i) {
    if (items[i].phase == phase) body(items[i], known[i]);
  });
}

}  // namespace rnnc
