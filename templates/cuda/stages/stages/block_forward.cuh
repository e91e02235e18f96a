// Forward kernel of a block plan for cells with stages: one block runs all steps of one head and
// some batch rows, as in lib/kernels/block_forward.cuh.
//
// Within a step, warps meet before each stage that needs a product or a statistic. Ahead of that
// barrier they write what called gates multiply, and their parts of statistics, to shared memory.
// One buffer of each is enough for a stage: all warps have read it before the barrier at the end of
// the step, and the next step writes it again after that. Arguments of called gates lie behind the
// states in the buffer of the next step.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/stages/block/items_forward.cuh"

namespace rnnc::block_forward {

RNNC_INLINE void run_head(const StagedForwardArguments& a, const Order& order) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * Plan::kBlockRows;
  const TileSteps tile_steps(a, first_row, Plan::kBlockRows);
  const int first_unit = warp * 8 * Plan::kUnitGroups, steps = static_cast<int>(tile_steps.of(a));

  StagedWeights weights;
  weights.load(a.R, a.heads, head, first_unit + (lane >> 2), 0, lane);
  StagedItems items;
  items.load(a, head, first_row, first_unit, lane);
  items.begin_masks(a, TimeOrder(steps, order), steps);
  items.masks.begin_parts(a, TimeOrder(steps, order), first_row, steps);

  // Padding in K and rows beyond the batch stay zero throughout.
  for (int i = threadIdx.x; i < 2 * kBufferBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  items.publish_for<0>(shared, items.state);

  // Copies wx of later steps.
  const TimeOrder time(steps, order);
  InputCopy input;
  input.prepare(a, first_row);
  const Element* next_input =
      a.wx + time.at(0) * a.wx_time + head * Plan::kHeadDim * Cell::kInputGates;
  char* const inputs = shared + 2 * kBufferBytes;
  char* const parts = shared + kSharedBytes;
  ResetCopy reset;
  reset.start(a, time, 1, threadIdx.x, head, 0, first_row, 1);
  NumberStore numbers;
  numbers.begin(a, time, head, first_row);
  Handover<false> handover(a);
  const auto prefetch = [&](int t, int stage_idx, bool is_first) {
    if (t < steps) {
      handover.wait(a, t);
      char* const stage = inputs + stage_idx * kStageBytes;
      input.issue(stage, next_input, a.wx_row);
      next_input += time.stride(a.wx_time);
      if (!is_first) reset.issue(stage + InputCopy::kBytes);
    }
    cp_async_commit();
  };
#pragma unroll 1
  for (int stage_idx = 0; stage_idx < Plan::kNumStages; ++stage_idx) {
    prefetch(stage_idx, stage_idx, stage_idx == 0);
  }
  items.unweighted.load(a, time, 0, steps);
  cp_async_wait<Plan::kNumStages - 2>();
  __syncthreads();
  items.start_base(inputs);
  items.unweighted.load(a, time, 1, steps);
  items.add_state_weights();
  __syncthreads();

  const int64 plane = a.heads * Plan::kHeadDim, step_size = kept(a.batch * plane);
  int64 t_offset = time.at(0) * step_size;  // of the step whose results are stored next
  const int fragment = launder(StateExchange::first_fragment(lane));
  int stage_idx = 0, buffer_offset = 0;
  int t = 0;
  const auto load = [&](int source, int k_tile) {
    return StateExchange::load(shared + buffer_offset + source * StateExchange::kBytes, fragment,
                               k_tile);
  };
  do {
    int stop;
    items.at_rows([&](const auto& valid, const auto& at) {
      stop = items.masks.begin_part<1>(a, time, first_row, t, steps, valid, at);
    });
#pragma unroll 1
    for (; t < stop; ++t) {
      items.for_each(
          [&](int group, int j) { assign(items.gate[group][j], items.base[group][j]); });
      Product product;
      items.start_products<0>(product);
      weights.multiply_for<0>(product, load);
      // While the product runs: read what rows may restart from, store the results of the last
      // step, and copy a later input into the stage of this step's.
      if constexpr (kResetsAhead) {
        const int next_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
        items.read_resets(inputs + next_idx * kStageBytes);
      }
      handover.publish(a, t - 2);
      if (t > 0) {
        items.store_stages(a, t_offset);
        t_offset += time.stride(step_size);
      }
      prefetch(t + Plan::kNumStages, stage_idx, false);
      cp_async_wait<Plan::kNumStages - 2>();
      stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
      items.finish_products<0>(product);
      buffer_offset ^= kBufferBytes;

      Items::PerItem<States> next;
      unroll<Cell::kStages>([&](auto stage_index) {
        constexpr int stage = decltype(stage_index)::value;
        constexpr bool last = stage + 1 == Cell::kStages;
        if constexpr (stage > 0) {
          if constexpr (exchanges_before(stage)) __syncthreads();
          items.start_products<stage>(product);
          weights.multiply_for<stage>(product, load);
          items.add_weights<stage>();
          Statistics::collect<stage>(parts, lane, items.number);
          items.finish_products<stage>(product);
        }
        if constexpr (last) {
          items.start_base(inputs + stage_idx * kStageBytes);
          items.unweighted.load(a, time, t + 2, steps);
        }
        const auto compute = [&](auto& sigmoid) { items.compute_stage<stage>(next, sigmoid); };
        with_sigmoid<true>(compute, [&] {
          items.publish_for<last ? 0 : stage + 1>(shared + buffer_offset, next);
        });
        if constexpr (!last) {
          Statistics::publish<stage + 1>(
              parts, warp, lane, [&](int i, int j, int k) { return items.value[i][j][k]; });
        }
      });
      numbers.store(a, time, items.number);
      items.for_each([&](int group, int j) { assign(items.state[group][j], next[group][j]); });
      items.add_state_weights();
      items.masks.advance();
      __syncthreads();
    }
  } while (kMasked && t < steps);
  handover.publish(a, steps - 2);
  if constexpr (kMasked) items.masks.begin_store(steps - 1);
  if (steps > 0) items.store_stages(a, t_offset);
  handover.publish(a, steps - 1);
  items.at_rows(
      [&](const auto& valid, const auto& at) { items.store_last(a, steps, valid, at); });
  // Zeros for the steps that no row of the tile runs.
  if constexpr (kMasked) {
    items.masks.clear();
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) items.store_stages(a, t * step_size);
  }
}

RNNC_INLINE void run(const StagedForwardArguments& a) {
  in_order(blockIdx.x, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::block_forward
