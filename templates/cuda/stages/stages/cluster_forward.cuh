// Forward kernel of a cluster plan for cells with stages: a cluster of blocks runs all steps of one
// head and 8 batch rows, as in lib/kernels/cluster_forward.cuh.
//
// Within a step, blocks exchange values before each stage that needs a product or a statistic: a
// warp pushes what called gates multiply as it pushes h, and a block its parts of statistics. Of
// each exchange there are two buffers with an mbarrier each. Those of h are read at step t from
// buffer t % 2; everything that is pushed during step t goes to buffer (t + 1) % 2, and stages of
// step t read their part of it from there. There is no other synchronisation between blocks. What
// lib/kernels/cluster_forward.cuh says of h holds for each exchange:
//
// - A buffer is not overwritten while it is read. A warp that pushes for an exchange has waited for
//   all of the exchange before it, which may be that of the same values a step ago. A part of it
//   came from each block, after all reads of the buffer that is now written, which were two steps
//   ago: from each warp that reads or, of statistics, after a barrier of its block. Warps that read
//   and do not push have met the others of their units before these pushed.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
//   the bytes of one step's exchange once it has seen the last phase complete.
// - No warp misses a phase. The next phase of the same mbarrier cannot complete before this block
//   has pushed for that exchange two steps later, which is after all of its warps that wait for it
//   have seen this phase complete.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
//
// In a wavefront no step is read or handed over early: each thread waits for the chunk of a step
// before it copies any of its inputs, and a warp stores the states of step t beside step t + 1,
// after which it says, at step t + 2, that they are stored.
#pragma once

#include "lib/stages/cluster/items_forward.cuh"
#include "lib/stages/cluster/run.cuh"

namespace rnnc::cluster_forward {

// What a thread does for the steps of its block.
struct StagedForward {
  const StagedForwardArguments& a;
  const int lane, warp, group, split;
  const bool computes;  // whether this warp has items; the other warps only compute partials
  const int64 watchdog;
  const u32 rank, shared_begin, barriers;
  const int64 head, first_row;
  const int first_unit;

  StagedWeights weights;
  PartialSums partials;
  StagedItems items;
  StagedPush push;
  Statistics statistics;
  Inputs inputs;
  UnweightedCopy unweighted;
  NumberStore<kItems> numbers;
  Handover<false> handover;
  int steps;
  bool is_leader;
  u32 fragments;
  int half_offset;  // of the words of a shared tile, among the four of a k_tile
  int stage_idx;  // of the step's inputs

  // NOTE: the watchdog is laundered, so that it stays in registers: a kernel argument would be
  // loaded again in each wait.
  RNNC_MEMBER explicit StagedForward(const StagedForwardArguments& arguments)
      : a(arguments), lane(threadIdx.x & 31), warp(threadIdx.x >> 5), group(warp / Plan::kSplits),
        split(warp % Plan::kSplits), computes(Plan::kSplits <= 2 || split < 2),
        watchdog(launder(arguments.watchdog)), rank(cluster_ctarank()),
        shared_begin(pin(shared_address(rnnc::shared))),
        barriers(shared_begin + kBarriersOffset), head(a.first_head + blockIdx.y),
        first_row((a.first_tile + blockIdx.z) * kColumns),
        first_unit(static_cast<int>(rank) * Plan::kUnits + group * kGroupUnits),
        handover(arguments) {}

  // The first of the thread's rows in the tile.
  RNNC_MEMBER int row() const { return 2 * (lane & 3) + (kItems == 2 ? 0 : split & 1); }

  RNNC_MEMBER void load(const Order& order) {
    const int first_column = kItems == 2 ? 0 : split & 1, unit = first_unit + (lane >> 2);
    weights.load(a.R, a.heads, head, unit, group, split * kSplitKTiles, lane);
    char* const shared = shared_pointer(shared_begin);
    begin_shared<kSharedBytes + kStagedBytes, 32 * kWarps>(shared, barriers);
    const TileSteps tile_steps(a, first_row, kColumns);
    steps = static_cast<int>(tile_steps.of(a));
    is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
    items.load(a, head, unit, first_row + first_column, lane, tile_steps, order);
    push.prepare(shared_begin, rank, first_unit, split & 1, lane);
    partials.prepare(shared + 2 * kBufferBytes, shared_begin + kSharedTilesOffset, group, split, lane);
    half_offset = pin((group & 1) * 8);
    statistics.prepare(shared_begin + kStatisticsOffset, barriers, static_cast<int>(rank), warp,
                       lane, group, row());
    const int item_warp = Plan::kSplits == 1 ? group : group * 2 + (split & 1);
    inputs.start(a, shared_begin, head, first_unit, first_row + first_column, item_warp, lane,
                 tile_steps, order);
    unweighted.start(items.unweighted, a, inputs.time, 0, shared + kUnweightedOffset,
                     32 * item_warp + lane, first_unit, first_row + first_column, kColumnStep);
    numbers.begin(a, inputs.time, head, first_row + row(), computes && first_unit == 0 && lane < 4);
    fragments = pin(shared_begin + StateExchange::first_fragment(lane) +
                    split * kSplitKTiles * StateExchange::kRowsKTileBytes);
    stage_idx = 0;
  }

  // Before the first step.
  RNNC_MEMBER void begin() {
    cluster_sync();
    if (is_leader) {
      mbarrier_pair_expect_tx(barriers, pushed_bytes(0));
      for_stages_that_wait([&](auto stage) {
        mbarrier_pair_expect_tx(barriers + exchange_of(stage) * kBarrierPairBytes,
                                pushed_bytes(stage));
      });
    }
    if (!computes || steps == 0) return;
    Words words;
    items.collect_for<0>(words, items.state, push);
    push.publish_for<0>(words);
    push.swap_buffers();
    items.masks.begin_parts(a, inputs.time, first_row, steps);
#pragma unroll 1
    for (int stage = 0; stage < Plan::kNumStages; ++stage) {
      inputs.prefetch(a, stage, stage, handover, unweighted);
    }
  }

  // The buffer that a stage of step t reads.
  template <int stage>
  static RNNC_MEMBER int buffer_of(int t) {
    return (stage == 0 ? t : t + 1) & 1;
  }
  template <int stage>
  RNNC_MEMBER u32 barrier_of(int t) const {
    return barriers + exchange_of(stage) * kBarrierPairBytes + buffer_of<stage>(t) * 8;
  }
  template <int stage>
  RNNC_MEMBER void wait_for(int t) const {
    mbarrier_wait(barrier_of<stage>(t), t >> 1 & 1, Wait{watchdog, t, kNoStep});
  }

  // Waits for what a stage needs, and adds its products to gates.
  template <int stage>
  RNNC_MEMBER void multiply(int t) {
    if constexpr (sources_of(stage) > 0) {
      StageProduct<stage> product;
      items.start_products<stage>(product, partials);
      const u32 words_at = launder(fragments + buffer_of<stage>(t) * kBufferBytes);
      wait_for<stage>(t);
      const auto at = [&](int source, int k_tile) -> u32 {
        return words_at + source * StateExchange::kBytes + k_tile * StateExchange::kRowsKTileBytes;
      };
      weights.multiply_for<stage>(
          product, partials.odd,
          [&](int source, int k_tile) { return ld_shared_v4(at(source, k_tile)); },
          [&](int source, int k_tile) {
            return *reinterpret_cast<const uint2*>(
                shared_pointer(at(source, k_tile) + half_offset));
          });
      Totals total;
      partials.add<stage>(total, product, computes);
      items.finish_products<stage>(total);
    } else if constexpr (waits_within(stage)) {
      if (computes) wait_for<stage>(t);
    }
  }

  template <int stage>
  RNNC_MEMBER void run_stage(int t, Items::PerItem<States>& next) {
    constexpr bool last = stage + 1 == Cell::kStages;
    constexpr int coming = last ? 0 : stage + 1;
    const u32 pushed = statistics.pushed_at<stage>(buffer_of<stage>(t));
    multiply<stage>(t);
    if (computes) {
      items.add_weights<stage>();
      statistics.collect<stage>(pushed, items.number);
      Words words;
      const auto compute = [&](auto& sigmoid) { items.compute_stage<stage>(next, sigmoid); };
      with_stage_sigmoid<stage, true>(compute, [&] { items.collect_for<coming>(words, next, push); });
      if (!last || t + 1 < steps) push.publish_for<coming>(words);
    }
    if constexpr (!last && statistics_of(coming) > 0) push_statistics<coming>(t);
    if constexpr (coming > 0 && coming == first_wait()) store_in_flight(t);
    if constexpr (coming > 0 && coming == second_wait()) store_saved_in_flight(t);
  }
  template <int stage>
  RNNC_MEMBER void push_statistics(int t) {
    const int buffer = buffer_of<stage>(t);
    if (computes) {
      statistics.write<stage>(
          buffer, [&](int, int j, int k) { return items.value[0][j][k]; },
          [&](int) { return items.exists; });
    }
    // NOTE: a constant where there is no padding. What depends on the block takes a division.
    statistics.meet_and_push<stage>(buffer, [&](int part) -> int {
      if constexpr (Statistics::kWhole) return kGroupUnits;
      const int first = static_cast<int>(rank) * Plan::kUnits + part * kGroupUnits;
      return maximum(minimum(Plan::kHeadDim - first, kGroupUnits), 0);
    });
  }

  RNNC_MEMBER void run_step(int t) {
    if (computes) {
      cp_async_wait<Plan::kNumStages - 1>();
      __syncwarp();
      unweighted.receive(items.unweighted, a, inputs.time, stage_idx);
      items.begin_gates(inputs.stage(stage_idx));
      items.read_resets(inputs.stage(stage_idx));
    }
    if constexpr (first_wait() == 0) {
      store_in_flight(t);
      store_saved_in_flight(t);
    }
    Items::PerItem<States> next;
    unroll<Cell::kStages>([&](auto stage) { run_stage<decltype(stage)::value>(t, next); });
    if (computes) end_step(t, next);
    stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
  }
  // While the first exchange within step t is in flight: stores states and numbers of the step
  // before, which the next stages replace.
  RNNC_MEMBER void store_in_flight(int t) {
    if (!computes) return;
    handover.publish(a, t - 2);
    if (t > 0) store_results();
  }
  // While the second one is in flight, if there are two: stores what that step saves for a backward.
  // All of it takes longer than one exchange of statistics.
  RNNC_MEMBER void store_saved_in_flight(int t) {
    if (computes && t > 0) items.store_saved_of(a);
  }
  // Of the next step whose results have not been stored.
  RNNC_MEMBER void store_results() {
    items.store_states_of(a);
    numbers.store(items.number);
  }
  // While h is in flight: thread 0 announces the bytes of step t + 2, and a later input is copied
  // into the stage of this step's.
  RNNC_MEMBER void end_step(int t, const Items::PerItem<States>& next) {
    items.for_each([&](int i, int j) { assign(items.state[i][j], next[i][j]); });
    push.swap_buffers();
    if (is_leader) {
      if constexpr (Cell::kStateSources > 0) {
        mbarrier_arrive_expect_tx(barrier_of<0>(t), pushed_bytes(0));
      }
      for_stages_that_wait([&](auto stage) {
        mbarrier_arrive_expect_tx(barrier_of<decltype(stage)::value>(t), pushed_bytes(stage));
      });
    }
    items.masks.advance();
    __syncwarp();
    inputs.prefetch(a, t + Plan::kNumStages, stage_idx, handover, unweighted);
  }

  RNNC_MEMBER void run_steps() {
    int t = 0;
    do {
      int stop = steps;
      if (kMasked && computes) {
        items.at_rows([&](const auto& valid, const auto& at) {
          stop = items.masks.begin_part<1>(a, inputs.time, first_row, t, steps, valid, at);
        });
      }
#pragma unroll 1
      for (; t < stop; ++t) run_step(t);
    } while (kMasked && t < steps);
  }
  RNNC_MEMBER void end() {
    if (computes) {
      handover.publish(a, steps - 2);
      items.masks.begin_store(steps - 1);
      if (steps > 0) {
        store_results();
        items.store_saved_of(a);
      }
      handover.publish(a, steps - 1);
      items.at_rows(
          [&](const auto& valid, const auto& at) { items.store_last(a, steps, valid, at); });
      if constexpr (kMasked) items.store_zeros_of(a, steps);
    }
    cluster_sync();
  }
};

RNNC_INLINE void run(const StagedForwardArguments& a) {
  run_head_by<StagedForward>(a);
}

}  // namespace rnnc::cluster_forward
