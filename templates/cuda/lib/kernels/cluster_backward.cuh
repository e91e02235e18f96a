// Backward kernel of a cluster plan: a cluster of blocks runs all steps of one head and 8 batch
// rows. Each block multiplies the gradients of its own units' gates by its rows of R, and pushes to
// each peer the partials for the peer's units.
//
// A block owns Plan::kUnits units. Its pointwise work is one item (unit, column) per thread at a
// time; the gradients of the gates meet in its own shared memory. The product has all units of the
// head as rows, in m16 tiles that are divided over the warps, and K runs over the block's units of
// every pair (gate, source) of a source. A lane's four partials of a tile are one 16-byte piece in
// the shared memory of the block that owns the tile's units, where the partials of all blocks are
// added in a fixed order.
//
// The state before a step gets a gradient from the pointwise map, which is known at once, and one
// through R, which comes from the peers. If the map is linear in the gradients of the states after
// it, it is applied while the pushes are in flight (cluster/items_backward.cuh). If it is not, as
// with a clipped gradient, it waits for them.
//
// There are two buffers, with an mbarrier each that counts the bytes of a step. Iteration i waits
// for what iteration i - 1 pushed into buffer (i - 1) % 2, and pushes into buffer i % 2:
//
// - A buffer is not overwritten while it is read. A warp that pushes at iteration i has passed its
//   block's barrier of that iteration, after everything that iteration i - 1 pushed to the block
//   had come. Each peer pushed its part after its own barrier of iteration i - 1, which follows all
//   its reads of buffer (i - 2) % 2, which iteration i's pushes overwrite.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
//   the bytes of one iteration, and by the argument above none of a later iteration can come
//   before.
// - No warp misses a phase. The phase of iteration i + 2 cannot complete before this block has
//   pushed at that iteration, which is after the barriers that all of its warps pass once they have
//   seen iteration i's phase complete. A warp without units waits for no phase, and passes the
//   barriers.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/kernels/cluster/items_backward.cuh"

namespace rnnc::cluster_backward {

RNNC_INLINE void run_head(const BackwardArguments& a, const Order& order) {
  const u32 rank = cluster_ctarank(), shared_begin = shared_address(shared);
  const u32 barriers = shared_begin + kBarriersOffset;
  Position at;
  at.load(a, rank, order);
  // NOTE: laundered, so that it stays in registers: a kernel argument would be loaded again in each
  // wait.
  const int64 watchdog = launder(a.watchdog);
  PartialPush push;
  push.prepare(shared_begin, rank, at.warp, at.lane);
  Weights weights;
  weights.load(shared, a.R, a.heads, at.head, at.block_unit, at.lane, [&](int tile, int half) {
    return push.tile[tile] * kTileUnits + 2 * (at.lane >> 2) + half;
  });

  for (int i = threadIdx.x; i < kSharedBytes / 4; i += 32 * Plan::kWarps)
    reinterpret_cast<u32*>(shared)[i] = 0u;
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_pair_init(barriers);

  const int steps = at.steps;
  const bool is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
  Items items;
  StepCopies copies;
  items.load(a, at, copies);
  items.masks.begin_parts(a, at.time(a), at.first_row, steps);

  UnweightedCopy unweighted;
  unweighted.start(items.unweighted, a, at.time(a), steps - 1, shared + kUnweightedOffset,
                   threadIdx.x, 0, at.first_row, 1);

  Handover<true> handover(a);
  const auto prefetch = [&](int t, int stage_idx) {
    if (t >= 0) {
      handover.wait(a, t);
      repeat<kItems>([&](int item) {
        if (items.active[item]) copies.issue(a, at, item, t, items.stage(stage_idx, item, at.warp));
      });
      unweighted.issue(a, at.time(a), stage_idx);
    }
    cp_async_commit();
  };
  const auto receive = [&](int i, Received& received) {
    if (items.active[0]) receive_partials(received, items.active, i, barriers, watchdog);
  };

  cluster_sync();
  if (is_leader) mbarrier_pair_expect_tx(barriers, kPartialsBytes);
#pragma unroll 1
  for (int stage = 0; stage < Plan::kNumStages; ++stage) prefetch(steps - 1 - stage, stage);

  const int fragment = launder(GradientExchange::first_fragment(at.lane));
  int stage_idx = 0;
  int i = 0;
  do {
    const int last = items.masks.begin_part(
        a, at.time(a), at.first_row, steps - 1 - i, steps,
        [&](int item) -> States& { return items.d_state[item][0]; });
    const int stop = steps - last;
#pragma unroll 1
    for (; i < stop; ++i) {
      const int t = steps - 1 - i;
      char* const buffer = shared + (i & 1) * GradientExchange::kBytes;
      cp_async_wait<Plan::kNumStages - 1>();
      __syncwarp();
      unweighted.receive(items.unweighted, a, at.time(a), stage_idx);
      Received received = {};
      if (!Plan::kLinear && Cell::kSources > 0 && i > 0) receive(i, received);
      repeat<kItems>([&](int item) {
        items.apply_map(a, item, items.stage(stage_idx, item, at.warp), received);
      });
      if (Plan::kLinear && Cell::kSources > 0 && i > 0) {
        receive(i, received);
        items.add_received(received);
      }
      items.publish(buffer, at.column);
      if constexpr (Cell::kSources > 0) {
        __syncthreads();
        Product product;
        repeat<kWarpTiles>([&](int tile) {
          repeat<Cell::kSources>([&](int source) { product[tile][source].clear(); });
        });
        unroll<Cell::kSources>([&](auto source_index) {
          constexpr int source = decltype(source_index)::value;
          weights.template multiply<source, 0>(product, [&](int k_tile) {
            return GradientExchange::load(buffer, fragment, k_tile);
          });
          push.send(product, source, i & 1);
        });
        // Thread 0 announces the bytes of iteration i + 1, into the buffer that has just been read.
        if (i > 0 && is_leader)
          mbarrier_arrive_expect_tx(barriers + ((i - 1) & 1) * 8, kPartialsBytes);
      }
      // While the partials are in flight: store the results, and copy an earlier step's data into
      // the stage of this step's.
      handover.publish(a, t + 1);
      items.end_gradient(a, t, received);
      items.store_step(a, at);
      items.masks.advance();
      __syncwarp();
      prefetch(t - Plan::kNumStages, stage_idx);
      stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
      if constexpr (kSumsInParts) {
        if (t % kPartSteps == 0) items.store_sums_at(a, at, t);
      }
    }
  } while (kMasked && i < steps);
  handover.publish(a, 0);
  if constexpr (!kSumsInParts) items.store_sums_at(a, at, 0);

  if (Cell::kSources > 0 && steps > 0) {
    Received received;
    receive(steps, received);
    items.finish(received);
  }
  repeat<kItems>(
      [&](int item) { items.masks.end(item, a, items.valid[item], items.d_state[item][0]); });
  items.store_initial(
      a, steps, [&](int item, int) { return items.valid[item]; },
      [&](Element* tensor, int item, int) { return element_at(tensor, items.offset_bytes[item]); });
  if constexpr (kMasked) items.store_zeros(a, at);
  cluster_sync();
}

RNNC_INLINE void run(const BackwardArguments& a) {
  in_order(a.first_head + blockIdx.y, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::cluster_backward
