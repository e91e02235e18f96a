// Backward kernel of a cluster plan for cells with stages: a cluster of blocks runs all steps of
// one head and 8 batch rows, as in lib/kernels/cluster_backward.cuh.
//
// The stages of a step run in the order of the backward. What a stage waits for comes from the
// peers: partial sums of the products with R transposed of called gates, and parts of sums over the
// units. After the last stage the partials for the states are pushed, for which the first stage of
// the next iteration waits.
//
// Each of these exchanges has two buffers with an mbarrier each: iteration i pushes into buffer i %
// 2. What lib/kernels/cluster_backward.cuh says of the one exchange there holds for each:
//
// - A buffer is not overwritten while it is read. A warp that pushes has passed a barrier of its
//   block, after everything of the exchange before had come to the block. Each peer pushed its part
//   of that after a barrier of its own, which follows all its reads of an exchange of two
//   iterations ago.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
//   the bytes of one iteration once it has seen the last phase complete.
// - No warp misses a phase. The next phase of the same mbarrier cannot complete before this block
//   has pushed for that exchange two iterations later, which is after a barrier that all of its
//   warps pass once they have seen this phase complete.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
//
// In a wavefront no step is read or handed over early: each thread waits for the chunk of a step
// before it copies any of its gradients, and a warp stores the gradients of step t at its end,
// after which it says, at the end of step t - 1, that they are stored.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/stages/cluster/items_backward.cuh"
#include "lib/stages/cluster/run.cuh"

namespace rnnc::cluster_backward {

// What a thread does for the steps of its block.
struct StagedBackward {
  const StagedBackwardArguments& a;
  const int64 watchdog;
  const u32 rank, shared_begin, barriers;

  Position at;
  StagedPush push;
  Weights weights;
  StagedItems items;
  StepCopies copies;
  NumberCopy number_copy;
  UnweightedCopy unweighted;
  Statistics statistics;
  Handover<true> handover;
  int steps, fragment, first_partial;
  bool is_leader;
  int stage_idx;  // of the step's data

  // NOTE: the watchdog is laundered, so that it stays in registers: a kernel argument would be
  // loaded again in each wait.
  RNNC_MEMBER explicit StagedBackward(const StagedBackwardArguments& arguments)
      : a(arguments), watchdog(launder(arguments.watchdog)), rank(cluster_ctarank()),
        shared_begin(shared_address(shared)), barriers(shared_begin + kBarriersOffset),
        handover(arguments) {}

  RNNC_MEMBER void load(const Order& order) {
    at.load(a, rank, order);
    push.prepare(shared_begin, rank, at.warp, at.lane);
    weights.load(shared, a.R, a.heads, at.head, at.block_unit, at.lane, [&](int tile, int half) {
      return push.tile[tile] * kTileUnits + 2 * (at.lane >> 2) + half;
    });
    begin_shared<kSharedBytes + kStagedBytes, 32 * Plan::kWarps>(shared, barriers);
    steps = at.steps;
    is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
    items.load(a, at, copies);
    items.masks.begin_parts(a, at.time(a), at.first_row, steps);
    number_copy.begin(a, at.time(a), steps - 1, at.head, at.first_row, at.lane);
    unweighted.start(items.unweighted, a, at.time(a), steps - 1, shared + kUnweightedOffset,
                     threadIdx.x, 0, at.first_row, 1);
    statistics.prepare(shared_begin + kStatisticsOffset, barriers, static_cast<int>(rank), at.warp,
                       at.lane, at.warp, at.column);
    first_partial = pin(static_cast<int>(threadIdx.x * sizeof(float)));
    fragment = launder(GradientExchange::first_fragment(at.lane));
    stage_idx = 0;
  }

  RNNC_MEMBER char* numbers_at(int of_stage) const {
    return shared + kNumbersOffset + of_stage * kNumbersBytes + at.warp * NumberCopy::kBytes;
  }
  // Copies the data of step t, if there is one. The values of `unweighted` belong to the same group.
  RNNC_MEMBER void copy_data(int t, int to) {
    if (t >= 0) {
      handover.wait(a, t);
      repeat<kItems>([&](int item) {
        if (items.active[item]) copies.issue(a, at, item, t, items.stage(to, item, at.warp));
      });
    }
    number_copy.issue(shared_address(numbers_at(to)), t >= 0);
    cp_async_commit();
  }
  // Before the last step, which runs first.
  RNNC_MEMBER void begin() {
    cluster_sync();
    if (is_leader) {
      mbarrier_pair_expect_tx(barriers, pushed_bytes(Cell::kStages));
      for_stages_that_wait([&](auto stage) {
        mbarrier_pair_expect_tx(barriers + exchange_of(stage) * kBarrierPairBytes,
                                pushed_bytes(stage));
      });
    }
#pragma unroll 1
    for (int stage = 0; stage < Plan::kNumStages; ++stage) {
      if (steps - 1 - stage >= 0) unweighted.issue(a, at.time(a), stage);
      copy_data(steps - 1 - stage, stage);
    }
  }

  template <int stage>
  RNNC_MEMBER u32 barrier_of(int i) const {
    return barriers + exchange_of(stage) * kBarrierPairBytes + (i & 1) * 8;
  }
  // Waits for what was pushed at iteration i for a stage, and sums the partials.
  template <int stage>
  RNNC_MEMBER void receive(Received& received, int i) const {
    const char* from = shared + launder(static_cast<u32>(kPartialsOffset +
                                                         (i & 1) * kPartialsBytes + first_partial));
    mbarrier_wait(barrier_of<stage>(i), i >> 1 & 1, Wait{watchdog, i, kNoStep});
    for_sources_of<stage>([&](auto source) {
      repeat<kItems>([&](int item) {
        const char* const partials =
            from + source * Plan::kCluster * kPartialBytes + item * Plan::kWarps * 128;
        if (items.active[item]) received[item][source] = sum_partials<Plan::kCluster>(partials);
      });
    });
  }

  // Pushes what a stage waits for: the products with the gradients in `buffer`, and sums.
  template <int stage>
  RNNC_MEMBER void push_for(int i, const char* buffer) {
    if constexpr (sources_of(stage) + statistics_of(stage) > 0) {
      if (items.active[0]) {
        statistics.write<stage>(
            i & 1, [&](int item, int, int k) { return items.value[item][k]; },
            [&](int item) { return items.exists(item, at); });
      }
      statistics.meet_and_push<stage>(i & 1, [&](int part) {
        int units = 0;
        repeat<kItems>([&](int item) {
          const int first = at.block_unit + (item * Plan::kWarps + part) * kItemUnits;
          const bool own = item * Plan::kWarps + part < kItemGroups;
          units += own ? maximum(minimum(Plan::kHeadDim - first, kItemUnits), 0) : 0;
        });
        return units;
      });
      Product product;
      for_sources_of<stage>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        repeat<kWarpTiles>([&](int tile) { product[tile][source].clear(); });
        weights.template multiply<source, 0>(
            product, [&](int k_tile) { return GradientExchange::load(buffer, fragment, k_tile); });
        push.send_for<stage>(product, source, i & 1);
      });
    }
  }

  template <int stage>
  RNNC_MEMBER void run_stage(int i, Received& received, char* buffer) {
    StagedItems::StageData data;
    items.read(data, stage_idx, at, numbers_at(stage_idx));
    if constexpr (stage == 0) {
      items.begin_step(a, stage_idx, at);
      items.look_ahead(data);
      if (Cell::kStateSources > 0 && i > 0 && items.active[0]) {
        receive<Cell::kStages>(received, i - 1);
      }
      items.add_to_states(received);
    } else if constexpr (waits_within(stage)) {
      if (items.active[0]) {
        Received partials = {};
        const u32 pushed = statistics.pushed_at<stage>(i & 1);
        receive<stage>(partials, i);
        items.take<stage>(partials);
        real sum[1][at_least_one(Cell::kStageSums)];
        assign(sum[0], items.sum);
        statistics.collect<stage>(pushed, sum);
        assign(items.sum, sum[0]);
      }
    }
    items.multiply_weights<stage>();
    items.run_stage<stage>(data, buffer, at.column);
    push_for<stage + 1>(i, buffer);
    if constexpr (stage + 1 < Cell::kStages && stage + 1 == first_wait()) work_in_flight(i);
    items.add_stage<stage>(data);
  }
  // While the first exchange within a step is in flight: copies an earlier step's data into the
  // stage of the step that ran before.
  RNNC_MEMBER void work_in_flight(int i) {
    if (i == 0) return;
    __syncwarp();
    copy_data(steps - i - Plan::kNumStages, stage_idx > 0 ? stage_idx - 1 : Plan::kNumStages - 1);
  }

  RNNC_MEMBER void run_step(int i) {
    const int t = steps - 1 - i;
    char* const buffer = shared + (i & 1) * GradientExchange::kBytes;
    cp_async_wait<Plan::kNumStages - 2>();
    __syncwarp();
    unweighted.receive(items.unweighted, a, at.time(a), stage_idx);
    if constexpr (first_wait() == 0) work_in_flight(i);
    Received received = {};
    unroll<Cell::kStages>(
        [&](auto stage) { run_stage<decltype(stage)::value>(i, received, buffer); });
    end_step(i, t, received);
  }
  // While the partials are in flight: thread 0 announces the bytes of later iterations, and results
  // are stored.
  RNNC_MEMBER void end_step(int i, int t, const Received& received) {
    if (is_leader) {
      if (Cell::kStateSources > 0 && i > 0) {
        mbarrier_arrive_expect_tx(barrier_of<Cell::kStages>(i - 1), pushed_bytes(Cell::kStages));
      }
      for_stages_that_wait([&](auto stage) {
        mbarrier_arrive_expect_tx(barrier_of<decltype(stage)::value>(i), pushed_bytes(stage));
      });
    }
    handover.publish(a, t + 1);
    items.end_gradient_of(a, t, received);
    items.store_step_of(a, at);
    items.masks.advance();
    if (t - Plan::kNumStages >= 0) unweighted.issue(a, at.time(a), stage_idx);
    stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) items.store_sums_at(a, at, t);
    }
  }

  RNNC_MEMBER void run_steps() {
    int i = 0;
    do {
      const int last = items.masks.begin_part(
          a, at.time(a), at.first_row, steps - 1 - i, steps,
          [&](int item) -> States& { return items.d_state[item][0]; });
      const int stop = steps - last;
#pragma unroll 1
      for (; i < stop; ++i) run_step(i);
    } while (kMasked && i < steps);
  }

  // After all steps: stores the sums, the gradients of the initial states, and zeros for steps that
  // no row of the tile runs.
  RNNC_MEMBER void end() {
    handover.publish(a, 0);
    if constexpr (!kSumsInParts) items.store_sums_at(a, at, 0);
    if (Cell::kStateSources > 0 && steps > 0) {
      Received received = {};
      if (items.active[0]) receive<Cell::kStages>(received, steps - 1);
      items.finish_states(received);
    }
    repeat<kItems>([&](int item) {
      items.masks.end(item, a, items.valid[item], items.d_state[item][0]);
    });
    items.store_initial(
        a, steps, [&](int item, int) { return items.valid[item]; },
        [&](Element* tensor, int item, int) {
          return element_at(tensor, items.offset_bytes[item]);
        });
    if constexpr (kMasked) items.store_zeros(a, at);
    cluster_sync();
  }
};

RNNC_INLINE void run(const StagedBackwardArguments& a) {
  run_head_by<StagedBackward>(a);
}

}  // namespace rnnc::cluster_backward
