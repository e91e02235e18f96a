// Backward kernel of a block plan: one block runs all steps of one head and some batch rows, with R
// transposed in registers and the gradients of the gates in shared memory.
//
// A warp owns 16 units, the rows of one m16 tile: a thread has the units lane / 4 and lane / 4 + 8
// and the columns 2q and 2q + 1, q = lane % 4. For each source, K runs over the units of every pair
// (gate, source). Gradients of biases, params and diagonal weights are summed over time in
// registers.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/kernels/block/items_backward.cuh"

namespace rnnc::block_backward {

RNNC_INLINE void run_head(const BackwardArguments& a, const Order& order) {
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
  Items items;
  items.load(a, head, first_row, first_unit, lane, tile_steps, order);
  for (int i = threadIdx.x; i < 2 * GradientExchange::kBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }

  StepCopy copy;
  copy.prepare(a, head, first_row, steps, order);
  char* const stages = shared + 2 * GradientExchange::kBytes;
  UnweightedCopy unweighted;
  unweighted.start(items.unweighted, a, copy.time, steps - 1, shared + kUnweightedOffset,
                   threadIdx.x, 0, first_row, 1);
  Handover<true> handover(a);
  const auto prefetch = [&](int t, int stage_idx) {
    if (t >= 0) {
      handover.wait(a, t);
      copy.issue(a, t, stages + stage_idx * kStageBytes);
      unweighted.issue(a, copy.time, stage_idx);
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
    const char* const stage = stages + stage_idx * kStageBytes;
    Items::PerItem<Gates> d_gate;
    unweighted.receive(items.unweighted, a, copy.time, stage_idx);
    items.for_each(
        [&](int half, int j) { items.step(half, j, a, stage, buffer, d_gate[half][j]); });
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) items.store_sums_at(a, t, tile_steps.of(a));
    }
    cp_async_wait<Plan::kNumStages - 2>();
    __syncthreads();

    Product product;
    repeat<Cell::kSources>([&](int source) { product[0][source].clear(); });
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      weights.template multiply<source, 2 * K::first_k_tile(source)>(
          product, [&](int k_tile) { return GradientExchange::load(buffer, fragment, k_tile); });
    });
    // While the product runs: copy an earlier step's data into the stage of this step's, and store
    // the results.
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
    items.for_each(
        [&](int half, int j) { items.store_gates(half, j, d_wx, d_no_input, d_gate[half][j]); });
    repeat<Cell::kSources>([&](int source) {
      items.for_each([&](int half, int j) {
        items.d_state[half][j][kSourceState[source]] += product[0][source].total(2 * half + j);
      });
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

RNNC_INLINE void run(const BackwardArguments& a) {
  in_order(blockIdx.x, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::block_backward
