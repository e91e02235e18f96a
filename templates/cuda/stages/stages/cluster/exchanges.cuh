// The exchanges of a step among the blocks of a cluster, for cells with stages.
//
// Exchange 0 is that of the states: a forward's before its first stage, a backward's after its last
// one. Each further one is what a stage within the step waits for. An exchange has two buffers with
// an mbarrier each, which steps use in turns.
#pragma once

#include "lib/ptx/mbarrier.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// Whether a stage within a step waits for other blocks.
RNNC_CONSTEXPR bool waits_within(int stage) {
  return stage > 0 && stage < Cell::kStages && exchanges_before(stage);
}
// The first of these stages; 0 if there is none. What can wait is done while its data is in flight.
RNNC_CONSTEXPR int first_wait() {
  for (int stage = 1; stage < Cell::kStages; ++stage) {
    if (waits_within(stage)) return stage;
  }
  return 0;
}
// The second one, or the first if there is one alone.
RNNC_CONSTEXPR int second_wait() {
  for (int stage = first_wait() + 1; stage < Cell::kStages; ++stage) {
    if (waits_within(stage)) return stage;
  }
  return first_wait();
}
// The number of the exchange that a stage waits for.
RNNC_CONSTEXPR int exchange_of(int stage) {
  int number = 0;
  for (int i = 1; i <= stage; ++i) number += waits_within(i);
  return waits_within(stage) ? number : 0;
}
constexpr int kExchanges = 1 + sum_before(Cell::kStages, waits_within);

// Two mbarriers of an exchange, of which the first is at `kBarriersOffset` for exchange 0.
constexpr int kBarrierPairBytes = 16;
constexpr int kFurtherBarrierBytes = (kExchanges - 1) * kBarrierPairBytes;

// How many of the sources, and of the first `of` statistics, a stage waits for.
RNNC_CONSTEXPR int sources_of(int stage) {
  int count = 0;
  for (int i = 0; i < Cell::kSources; ++i) count += kSourceStage[i] == stage;
  return count;
}
RNNC_CONSTEXPR int statistics_of(int stage, int of = Cell::kStageStatistics) {
  int count = 0;
  for (int i = 0; i < of; ++i) count += kStageStatistics[i].stage == stage;
  return count;
}

// body(stage) for the stage of each exchange within a step.
template <typename Body>
RNNC_INLINE void for_stages_that_wait(const Body& body) {
  unroll<Cell::kStages>([&](auto stage) {
    if constexpr (waits_within(stage)) body(stage);
  });
}

}  // namespace rnnc
