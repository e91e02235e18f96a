// The order of stages, phases and items in a step of a grid plan: all phases take a stage before
// any takes the next. While the results of one are in flight to the other blocks, the others are
// computed.
#pragma once

#include "lib/stages/item.cuh"

namespace rnnc {

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
