// Backward kernel of a block plan for cells with stages: one block runs all steps of one head and
// some batch rows, as in lib/kernels/block_backward.cuh.
//
// The stages of a step run in the order of the backward. A stage writes the gradients of its gates
// to shared memory, and its warps' parts of sums over the units. After a barrier the next stage has
// the products with R transposed of called gates, and the sums. The product for the states comes
// last. Parts of sums have one buffer: all warps have read it before the last barrier of the step.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/stages/block/items_backward.cuh"

namespace rnnc::block_backward {

RNNC_INLINE void run_head(const StagedBackwardArguments& a, const Order& order) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * Plan::kBlockRows;
  const TileSteps tile_steps(a, first_row, Plan::kBlockRows);
  const int first_unit = warp * kWarpUnits, steps = static_cast<int>(tile_steps.of(a));
  const int64 plane = a.heads * Plan::kHeadDim, step_size = a.batch * plane;

  Weights weights;
  weights.load(shared, a.R, a.heads, head, 0, lane, [&](int, int half) {
    const int unit = first_unit + 8 * half + (lane >> 2);
    __builtin_assume(kPaddedDim > Plan::kHeadDim || unit < Plan::kHeadDim);
    return unit;
  });
  StagedItems items;
  items.load(a, head, first_row, first_unit, lane, tile_steps, order);
  for (int i = threadIdx.x; i < 2 * GradientExchange::kBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }

  StepCopy copy;
  copy.prepare(a, head, first_row, steps, order);
  NumberCopy number_copy;
  number_copy.begin(a, head, first_row);
  char* const stages = shared + 2 * GradientExchange::kBytes;
  char* const parts = shared + kSharedBytes;
  char* const number_stages = parts + Statistics::kBytes;
  Handover<true> handover(a);
  const auto prefetch = [&](int t, int stage_idx) {
    if (t >= 0) {
      handover.wait(a, t);
      copy.issue(a, t, stages + stage_idx * kStageBytes);
      number_copy.issue(number_stages + stage_idx * NumberCopy::kBytes, copy.time.at(t));
    }
    cp_async_commit();
  };
#pragma unroll 1
  for (int stage = 0; stage < Plan::kNumStages; ++stage) prefetch(steps - 1 - stage, stage);
  cp_async_wait<Plan::kNumStages - 1>();
  __syncthreads();

  items.masks.advance(
      a, copy.time,
      steps > 0 ? copy.restarts.read(stages + before_offset(0), copy.time.at(steps - 1)) : 0);
  const int fragment = launder(GradientExchange::first_fragment(lane));
  int stage_idx = 0, buffer_offset = 0;
#pragma unroll 1
  for (int t = steps - 1; t >= 0; --t) {
    char* const buffer = shared + buffer_offset;
    const char* const data = stages + stage_idx * kStageBytes;
    const char* const numbers = number_stages + stage_idx * NumberCopy::kBytes;
    items.for_each([&](int half, int j) { items.begin_step(half, j, a, data); });
    unroll<Cell::kStages>([&](auto stage_index) {
      constexpr int stage = decltype(stage_index)::value;
      if constexpr (stage > 0) {
        if constexpr (exchanges_before(stage)) __syncthreads();
        items.multiply_for<stage>(weights, buffer, fragment);
        items.multiply_weights<stage>();
        Statistics::collect<stage>(parts, lane, items.sum);
      }
      items.for_each(
          [&](int half, int j) { items.run_stage<stage>(half, j, data, numbers, buffer); });
      Statistics::publish<stage + 1>(
          parts, warp, lane, [&](int half, int j, int k) { return items.value[half][j][k]; });
    });
    items.add_state_weights();
    items.for_each(
        [&](int half, int j) { assign(items.after[half][j], items.last[half][j]); });
    items.unweighted.load(a, copy.time, t - 1, steps);
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) items.store_sums_at(a, t, tile_steps.of(a));
    }
    cp_async_wait<Plan::kNumStages - 2>();
    __syncthreads();

    items.multiply_for<Cell::kStages>(weights, buffer, fragment);
    // Copies an earlier step's data into the stage of this step's, and stores the results.
    prefetch(t - Plan::kNumStages, stage_idx);
    stage_idx = stage_idx + 1 < Plan::kNumStages ? stage_idx + 1 : 0;
    buffer_offset ^= GradientExchange::kBytes;
    handover.publish(a, t + 1);
    items.masks.advance(
        a, copy.time,
        t > 0 ? copy.restarts.read(stages + stage_idx * kStageBytes + before_offset(0),
                                   copy.time.at(t - 1))
              : 0);
    // Laundered: otherwise the compiler multiplies again in the branch of each store.
    const int64 t_offset = launder(copy.time.at(t) * step_size);
    Element* const d_wx = a.d_wx + t_offset * Cell::kInputGates;
    Element* const d_no_input = a.d_gates_no_input + t_offset * kGatesNoInput;
    items.for_each([&](int half, int j) {
      items.store_gates(half, j, d_wx, d_no_input, items.d_gate[half][j]);
    });
    items.masks.cross(
        a, [&](int half, int j) { return items.valid[half][j]; },
        [&](int half, int j) -> States& { return items.d_state[half][j]; });
  }

  handover.publish(a, 0);
  if constexpr (!kSumsInParts) items.store_sums_at(a, 0, tile_steps.of(a));
  items.store_initial(
      a, steps, [&](int half, int j) { return items.valid[half][j]; },
      [&](Element* tensor, int half, int j) {
        return element_at(tensor + 8 * half, items.offset_bytes[j]);
      });
  // Zeros for the steps that no row of the tile runs.
  if constexpr (kMasked) {
    const Gates none = {};
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) {
      Element* const d_wx = a.d_wx + t * step_size * Cell::kInputGates;
      Element* const d_no_input = a.d_gates_no_input + t * step_size * kGatesNoInput;
      items.for_each(
          [&](int half, int j) { items.store_gates(half, j, d_wx, d_no_input, none); });
    }
  }
}

RNNC_INLINE void run(const StagedBackwardArguments& a) {
  in_order(blockIdx.x, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::block_backward
