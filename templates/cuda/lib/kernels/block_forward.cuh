// Forward kernel of a block plan: one block runs all steps of one head and some batch rows, with R
// in registers and h in shared memory.
//
// A warp owns Plan::kUnitGroups groups of 8 units. Rows of R are interleaved by gate: the two
// halves of an m16 tile are 8 units of one gate and 8 units of the next. So a thread's accumulators
// hold all gates of unit lane / 4 of each group, for columns 2q and 2q + 1, q = lane % 4. The
// states stay in that thread's registers; only those that a dense gate reads go to shared memory,
// behind one barrier per step.
//
// With Plan::kThreadRows = 1 the odd columns stay empty: a block has 4 batch rows and half the
// pointwise work, and there are twice as many blocks.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/kernels/block/items_forward.cuh"

namespace rnnc::block_forward {

RNNC_INLINE void run_head(const ForwardArguments& a, const Order& order) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * Plan::kBlockRows;
  const TileSteps tile_steps(a, first_row, Plan::kBlockRows);
  const int first_unit = warp * 8 * Plan::kUnitGroups, steps = static_cast<int>(tile_steps.of(a));

  Weights weights;
  weights.load(a.R, a.heads, head, first_unit + (lane >> 2), 0, lane);
  Items items;
  items.load(a, head, first_row, first_unit, lane);
  items.begin_masks(a, TimeOrder(steps, order), steps);
  items.masks.begin_parts(a, TimeOrder(steps, order), first_row, steps);

  // Padding in K and rows beyond the batch stay zero throughout.
  for (int i = threadIdx.x; i < 2 * kBufferBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  items.publish(shared, items.state);

  // Copies wx of later steps: a step is shorter than a round trip to memory.
  const TimeOrder time(steps, order);
  InputCopy input;
  input.prepare(a, first_row);
  const Element* next_input =
      a.wx + time.at(0) * a.wx_time + head * Plan::kHeadDim * Cell::kInputGates;
  char* const inputs = shared + 2 * kBufferBytes;
  ResetCopy reset;
  reset.start(a, time, 1, threadIdx.x, head, 0, first_row, 1);
  UnweightedCopy unweighted;
  unweighted.start(items.unweighted, a, time, 0, shared + kUnweightedOffset, threadIdx.x, 0,
                   first_row, 1);
  Handover<false> handover(a);
  const int64 row_stride = kept(a.wx_row), time_stride = kept(time.stride(a.wx_time));
  const auto prefetch = [&](int t, int stage_idx, bool is_first) {
    if (t < steps) {
      handover.wait(a, t);
      char* const stage = inputs + stage_idx * kStageBytes;
      input.issue(stage, next_input, kMasked ? row_stride : a.wx_row);
      next_input += kMasked ? time_stride : time.stride(a.wx_time);
      unweighted.issue(a, time, stage_idx);
      if (!is_first) reset.issue(stage + InputCopy::kBytes);
    }
    cp_async_commit();
  };
#pragma unroll 1
  for (int stage_idx = 0; stage_idx < Plan::kNumStages; ++stage_idx) {
    prefetch(stage_idx, stage_idx, stage_idx == 0);
  }
  cp_async_wait<Plan::kNumStages - 2>();
  __syncthreads();
  unweighted.receive(items.unweighted, a, time, 0);
  items.start_base(inputs);
  items.add_states();
  __syncthreads();

  const int64 plane = a.heads * Plan::kHeadDim, step_size = kept(a.batch * plane);
  int64 t_offset = time.at(0) * step_size;  // of the step whose results are stored next
  const int fragment = launder(StateExchange::first_fragment(lane));
  int stage_idx = 0, buffer_offset = 0;
  int t = 0;
  do {
    int stop;
    items.at_rows([&](const auto& valid, const auto& at) {
      stop = items.masks.begin_part<1>(a, time, first_row, t, steps, valid, at);
    });
#pragma unroll 1
    for (; t < stop; ++t) {
      Product product;
      repeat<Weights::kTiles>([&](int tile) { product[tile].clear(); });
      items.seed(product);
      weights.multiply(product, [&](int source, int k_tile) {
        return StateExchange::load(shared + buffer_offset + source * StateExchange::kBytes,
                                   fragment, k_tile);
      });
      // While the product runs: read what rows may restart from, store the results of the last
      // step, and copy a later input into the stage of this step's.
      if constexpr (kResetsAhead) {
        const int next_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
        items.read_resets(inputs + next_idx * kStageBytes);
      }
      handover.publish(a, t - 2);
      if (t > 0) {
        items.store_step(a, t_offset);
        t_offset += time.stride(step_size);
      }
      prefetch(t + Plan::kNumStages, stage_idx, false);
      cp_async_wait<Plan::kNumStages - 2>();
      stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;

      Items::PerItem<Gates> gate;
      items.finish_gates(gate, product);
      unweighted.receive(items.unweighted, a, time, stage_idx);
      items.start_base(inputs + stage_idx * kStageBytes);
      buffer_offset ^= kBufferBytes;
      Items::PerItem<States> next;
      const auto compute = [&](auto& sigmoid) { items.compute(gate, next, sigmoid); };
      with_sigmoid<true>(compute, [&] { items.publish(shared + buffer_offset, next); });
      items.for_each([&](int group, int j) { assign(items.state[group][j], next[group][j]); });
      items.add_states();
      items.masks.advance();
      __syncthreads();
    }
  } while (kMasked && t < steps);
  handover.publish(a, steps - 2);
  if constexpr (kMasked) items.masks.begin_store(steps - 1);
  if (steps > 0) items.store_step(a, t_offset);
  handover.publish(a, steps - 1);
  items.at_rows(
      [&](const auto& valid, const auto& at) { items.store_last(a, steps, valid, at); });
  if constexpr (kMasked) {
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) items.store_zeros(a, t * step_size);
  }
}

RNNC_INLINE void run(const ForwardArguments& a) {
  in_order(blockIdx.x, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::block_forward
