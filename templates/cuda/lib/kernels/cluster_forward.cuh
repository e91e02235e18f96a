// Forward kernel of a cluster plan: a cluster of blocks runs all steps of one head and 8 batch
// rows, with R in registers; each block pushes h to its peers.
//
// A block owns Plan::kUnits units. Rows of R are interleaved by gate: the two halves of an m16 tile
// are 8 units of one gate and the same units of the next. So a thread's accumulators hold all gates
// of unit lane / 4, for columns 2q and 2q + 1, q = lane % 4. Plan::kSplits warps share K of the
// same units and add their partials through shared memory; then each of the first two warps takes
// one of the columns.
//
// Every block has all of h, of 8 rows, in two buffers with an mbarrier each. Step t reads buffer t
// % 2 once its mbarrier has counted all bytes of h, and pushes its results to buffer (t + 1) % 2 of
// every block. There is no other synchronisation between blocks:
//
// - A buffer is not overwritten while it is read. A warp that pushes at step t has waited for all
//   of step t's h, a part of which came from each warp of each peer. Those warps pushed their part
//   at step t - 1 after their reads of buffer (t - 1) % 2, which step t's pushes overwrite; with
//   Plan::kSplits > 1 they also passed the barrier that follows the reads of the other warps of the
//   same units.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
//   the bytes of one step's h, and by the argument above bytes of a later step cannot come before.
//   They may come before their own announcement, which then finds them already counted.
// - No warp misses a phase. The phase of step t + 2 cannot complete before this block has pushed at
//   step t + 1, which is after all of its warps have seen the phase of step t complete.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
#pragma once

#include "lib/kernels/cluster/items_forward.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::cluster_forward {

RNNC_INLINE void run_head(const ForwardArguments& a, const Order& order) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int group = warp / Plan::kSplits, split = warp % Plan::kSplits;
  // Whether this warp has items; the other warps only compute partials.
  const bool computes = Plan::kSplits <= 2 || split < 2;
  // NOTE: laundered, so that it stays in registers: a kernel argument would be loaded again in each
  // wait.
  const int64 watchdog = launder(a.watchdog);
  const u32 rank = cluster_ctarank(), shared_begin = pin(shared_address(rnnc::shared));
  char* const shared = shared_pointer(shared_begin);
  const u32 barriers = shared_begin + kBarriersOffset;
  const int64 head = a.first_head + blockIdx.y, first_row = (a.first_tile + blockIdx.z) * kColumns;
  const int first_unit = static_cast<int>(rank) * Plan::kUnits + group * kGroupUnits;
  const int first_column = kItems == 2 ? 0 : split & 1, unit = first_unit + (lane >> 2);

  Weights weights;
  weights.load(a.R, a.heads, head, unit, split * kSplitKTiles, lane);

  for (int i = threadIdx.x; i < kSharedBytes / 4; i += 32 * kWarps) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_pair_init(barriers);

  const TileSteps tile_steps(a, first_row, kColumns);
  const int steps = static_cast<int>(tile_steps.of(a));
  const bool is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
  Items items;
  items.load(a, head, unit, first_row + first_column, lane, tile_steps, order);

  StatePush state_push;
  state_push.prepare(shared_begin, rank, first_unit, split & 1, lane);

  Inputs inputs;
  const int item_warp = Plan::kSplits == 1 ? group : group * 2 + (split & 1);
  inputs.start(a, shared_begin, head, first_unit, first_row + first_column, item_warp, lane,
               tile_steps, order);

  UnweightedCopy unweighted;
  unweighted.start(items.unweighted, a, inputs.time, 0, shared + kUnweightedOffset,
                   32 * item_warp + lane, first_unit, first_row + first_column, kColumnStep);

  Handover<false> handover(a);
  cluster_sync();
  if (is_leader) mbarrier_pair_expect_tx(barriers, kPushedBytes);
  if (computes && steps > 0) {
    Words words;
    items.collect(words, items.state, lane);
    state_push.publish(words);
    items.masks.begin_parts(a, inputs.time, first_row, steps);
#pragma unroll 1
    for (int stage = 0; stage < Plan::kNumStages; ++stage) {
      inputs.prefetch(a, stage, stage, handover, unweighted);
    }
  }

  const u32 fragments = pin(shared_begin + StateExchange::first_fragment(lane) +
                            split * kSplitKTiles * StateExchange::kRowsKTileBytes);
  int stage_idx = 0;
  int t = 0;
  do {
    int stop = steps;
    if (kMasked && computes) {
      items.at_rows([&](const auto& valid, const auto& at) {
        stop = items.masks.begin_part<0>(a, inputs.time, first_row, t, steps, valid, at);
      });
    }
#pragma unroll 1
    for (; t < stop; ++t) {
      ItemGates gate;
      if (computes) {
        cp_async_wait<Plan::kNumStages - 1>();
        __syncwarp();
        unweighted.receive(items.unweighted, a, inputs.time, stage_idx);
        items.start(gate, inputs.stage(stage_idx));
        items.read_resets(inputs.stage(stage_idx));
      }
      if constexpr (Cell::kSources > 0) {
        Product product;
        repeat<Weights::kTiles>([&](int tile) { product[tile].clear(); });
        seed(product, gate, split);
        const u32 buffer = (t & 1) * kBufferBytes;
        const u32 words_at = launder(fragments + buffer);
        mbarrier_wait(barriers + (t & 1) * 8, t >> 1 & 1, Wait{watchdog, t, kNoStep});
        weights.multiply(product, [&](int source, int k_tile) {
          return ld_shared_v4(words_at + source * StateExchange::kBytes +
                              k_tile * StateExchange::kRowsKTileBytes);
        });
        Totals total;
        add_partials(total, product, shared, group, split, lane, computes);
        finish_gates(gate, total);
      }
      if (computes) {
        Items::PerItem<States> next;
        Words words;
        const auto compute = [&](auto& sigmoid) { items.compute(gate, next, sigmoid); };
        with_sigmoid<true>(compute, [&] { items.collect(words, next, lane); });
        items.for_each([&](int i, int j) { assign(items.state[i][j], next[i][j]); });
        if (t + 1 < steps) state_push.publish(words);
        // While h is in flight: thread 0 announces the bytes of step t + 2, results are stored, and
        // a later input is copied into the stage of this step's.
        if (Cell::kSources > 0 && is_leader)
          mbarrier_arrive_expect_tx(barriers + (t & 1) * 8, kPushedBytes);
        handover.publish(a, t - 1);
        items.store_step(a);
        items.masks.advance();
        __syncwarp();
        inputs.prefetch(a, t + Plan::kNumStages, stage_idx, handover, unweighted);
      }
      stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
    }
  } while (kMasked && t < steps);
  if (computes) {
    handover.publish(a, steps - 1);
    items.at_rows(
        [&](const auto& valid, const auto& at) { items.store_last(a, steps, valid, at); });
    if constexpr (kMasked) items.store_zeros(a, steps);
  }
  cluster_sync();
}

RNNC_INLINE void run(const ForwardArguments& a) {
  in_order(a.first_head + blockIdx.y, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::cluster_forward
