// Forward kernel of a block plan for cells with stages: one block runs all steps of one head and
// some batch rows, as in lib/kernels/block_forward.cuh.
//
// Within a step, warps meet before each stage that needs a product or a statistic. Ahead of that
// barrier they write what called gates multiply, and their parts of statistics, to shared memory.
// One buffer of each is enough for a stage: all warps have read it before the barrier at the end of
// the step, and the next step writes it again after that. Arguments of called gates lie behind the
// states in the buffer of the next step.
//
// Results of a step are stored beside the next one, from registers that it does not write before: the
// states and numbers of a step change in its later stages.
//
// In a wavefront no step is read or handed over early: each thread waits for the chunk of a step
// before it copies any of its inputs, and a warp stores the results of step t beside step t + 1,
// after which it says, at step t + 2, that they are stored.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/stages/block/items_forward.cuh"
#include "lib/stages/number_store.cuh"
#include "lib/stages/result_store.cuh"

namespace rnnc::block_forward {

// What a thread does for the steps of its block.
struct StagedForward {
  const StagedForwardArguments& a;
  const TimeOrder time;
  const int steps, lane, warp;
  const int64 head, first_row;

  StagedWeights weights;
  StagedItems items;
  InputCopy input;
  ResetCopy reset;
  ResultStore<1, Plan::kThreadRows> state_store[Cell::kStates];
  DirectSavedStore saved_direct;
  NumberStore<Plan::kThreadRows> numbers;
  SavedStore saved_store;
  Stored stored;              // where this thread stores results
  UnweightedCopy unweighted;
  Handover<false> handover;
  const Element* next_input;  // of the step whose input is copied next
  int64 step_size;            // of [B, N, D]
  int fragment, saved_offset;
  int place;                  // among those of inputs: of the step
  int buffer;                 // offset of what this step multiplies; the next step's is the other
  StagedItems::PerItem<States> next;  // what the next step begins from

  RNNC_MEMBER StagedForward(const StagedForwardArguments& arguments, const Order& order, int count,
                            int64 row)
      : a(arguments), time(count, order), steps(count), lane(pin(threadIdx.x & 31)),
        warp(pin(threadIdx.x >> 5)), head(blockIdx.x), first_row(row), handover(arguments) {}

  static RNNC_MEMBER char* inputs_at(int place) {
    return shared + 2 * kBufferBytes + place * kStageBytes;
  }
  static RNNC_MEMBER int after(int place) {
    return place + 1 < Plan::kNumStages ? place + 1 : 0;
  }
  // Begins to copy the inputs of step t, or of none beyond the last.
  RNNC_MEMBER void copy_inputs(int t, int to) {
    if (t < steps) {
      handover.wait(a, t);
      input.issue(inputs_at(to), next_input, a.wx_row);
      next_input += time.stride(a.wx_time);
      unweighted.issue(a, time, to);
      if (t > 0) reset.issue(inputs_at(to) + InputCopy::kBytes);
    }
    cp_async_commit();
  }

  RNNC_MEMBER void load() {
    const int unit = warp * 8 * Plan::kUnitGroups;
    weights.load(a.R, a.heads, head, unit + (lane >> 2), 0, lane);
    items.load(a, head, first_row, unit, lane);
    items.begin_masks(a, time, steps);
    items.masks.begin_parts(a, time, first_row, steps);
    step_size = kept(a.batch * a.heads * Plan::kHeadDim);
    next_input = a.wx + time.at(0) * a.wx_time + head * Plan::kHeadDim * Cell::kInputGates;
    input.prepare(a, first_row);
    reset.start(a, time, 1, threadIdx.x, head, 0, first_row, 1);
    unweighted.start(items.unweighted, a, time, 0, shared + kUnweightedOffset, threadIdx.x, 0,
                     first_row, 1);
    // Results are stored a step later: at step 0 there are none.
    repeat<Cell::kStates>([&](int s) {
      state_store[s].begin(a.states[s], time.at(-1), step_size, time.stride(step_size),
                           items.offset_bytes);
      state_store[s].keep_stride();
    });
    saved_direct.begin(a.saved, time.at(-1), step_size, time.stride(step_size),
                       items.offset_bytes);
    saved_direct.keep_stride();
    items.begin_stored(stored, a);
    items.clear_results();
    items.for_each([&](int i, int j) { assign(next[i][j], items.state[i][j]); });
    numbers.begin(a, time, head, first_row + Plan::kThreadRows * threadIdx.x, threadIdx.x < 4, -1);
    saved_store.begin(a, first_row, a.heads * Plan::kHeadDim * Cell::kSaved,
                      a.saved ? a.saved + head * Plan::kHeadDim * Cell::kSaved : nullptr,
                      time.at(-1), step_size * Cell::kSaved,
                      time.stride(step_size) * Cell::kSaved);
    saved_store.keep_stride();
    saved_offset = pin(SavedStore::offset(Plan::kThreadRows * (lane & 3), unit + (lane >> 2)));
    fragment = launder(StateExchange::first_fragment(lane));
    buffer = place = 0;
  }

  // Before the first step.
  RNNC_MEMBER void begin() {
    // Padding in K and rows beyond the batch stay zero throughout.
    for (int word = threadIdx.x; word < 2 * kBufferBytes / 4; word += blockDim.x) {
      reinterpret_cast<u32*>(shared)[word] = 0u;
    }
    __syncthreads();
    items.publish_for<0>(shared, items.state);
#pragma unroll 1
    for (int t = 0; t < Plan::kNumStages; ++t) copy_inputs(t, t);
    cp_async_wait<Plan::kNumStages - 2>();
    __syncthreads();
    start_next();
    __syncthreads();  // before a step copies to the place that this has read
  }
  // Starts the gates of the step whose inputs come next.
  RNNC_MEMBER void start_next() {
    unweighted.receive(items.unweighted, a, time, place);
    items.start_base(inputs_at(place));
  }

  template <int stage>
  RNNC_MEMBER void multiply(StageProduct<stage>& product) {
    items.start_products<stage>(product);
    weights.multiply_for<stage>(product, [&](int source, int k_tile) {
      const char* const from = shared + buffer + source * StateExchange::kBytes;
      return StateExchange::load(from, fragment, k_tile);
    });
  }

  // While the products of step t run: reads what rows may restart from, stores the results of the
  // step before, and begins a copy to the place that becomes free.
  RNNC_MEMBER void work_beside_products(int t) {
    if constexpr (kResetsAhead) items.read_resets(inputs_at(after(place)));
    if constexpr (!SavedStore::kUsed) handover.publish(a, t - 2);
    store_results(t > 0);
    if constexpr (SavedStore::kUsed) items.write_saved(saved_rows(), saved_offset);
    copy_inputs(t + Plan::kNumStages, place);
    cp_async_wait<Plan::kNumStages - 2>();
    place = after(place);
  }

  // Stores the results of the step before, if there is one, but for those that a RowStore stores.
  RNNC_MEMBER void store_results(bool holds) {
    items.store_results(state_store, stored, holds);
    if constexpr (!SavedStore::kUsed) items.store_saved_directly(saved_direct, stored, holds);
    numbers.store(items.number, holds);
  }

  static RNNC_MEMBER char* saved_rows() { return shared + kSharedBytes + Statistics::kBytes; }
  // After the first meeting of step t: stores what the step before saved.
  RNNC_MEMBER void store_saved_rows(int t) {
    handover.publish(a, t - 2);
    saved_store.store(saved_rows(), t > 0);
  }

  // The stage in which the gates of the next step are started: the last one but one, beside what it
  // exchanges, or else beside the products of the last. Behind these all warps would wait for it.
  static constexpr int kStartingStage = maximum(Cell::kStages - 2, 1);

  template <int stage>
  RNNC_MEMBER void run_stage(int t) {
    constexpr bool last = stage + 1 == Cell::kStages;
    char* const parts = shared + kSharedBytes;
    if constexpr (stage > 0) {
      if constexpr (exchanges_before(stage)) __syncthreads();
      StageProduct<stage> product;
      multiply<stage>(product);
      if constexpr (last && stage == kStartingStage) start_next();
      if constexpr (SavedStore::kUsed && stage == first_meeting()) store_saved_rows(t);
      items.add_weights<stage>();
      Statistics::collect<stage>(parts, lane, items.number);
      items.finish_products<stage>(product);
    }
    const auto compute = [&](auto& sigmoid) { items.compute_stage<stage>(next, sigmoid); };
    with_stage_sigmoid<stage, true>(compute, [&] { items.publish_for<last ? 0 : stage + 1>(shared + buffer, next); });
    if constexpr (!last && stage == kStartingStage) start_next();
    if constexpr (!last) {
      Statistics::publish<stage + 1>(
          parts, warp, lane, [&](int i, int j, int k) { return items.value[i][j][k]; });
    }
  }

  // NOTE: the results of a step go to their registers at the begin of the next one, beside products:
  // around the barrier all warps would wait for it.
  RNNC_MEMBER void run_step(int t) {
    items.go_on(next);
    items.begin_gates();
    StageProduct<0> product;
    multiply<0>(product);
    work_beside_products(t);
    items.finish_products<0>(product);
    buffer ^= kBufferBytes;
    unroll<Cell::kStages>([&](auto stage) { run_stage<decltype(stage)::value>(t); });
    items.masks.advance();
    __syncthreads();
  }

  RNNC_MEMBER void run_steps() {
    int t = 0;
    do {
      int stop = steps;
      items.at_rows([&](const auto& valid, const auto& at) {
        stop = items.masks.begin_part<1>(a, time, first_row, t, steps, valid, at);
      });
#pragma unroll 1
      for (; t < stop; ++t) run_step(t);
    } while (kMasked && t < steps);
  }

  // After the last step: stores its results, and zeros for steps that no row of the block runs.
  RNNC_MEMBER void end() {
    handover.publish(a, steps - 2);
    items.masks.begin_store(steps - 1);
    items.go_on(next);
    if (steps > 0) {
      store_results(true);
      if constexpr (SavedStore::kUsed) items.store_saved_of(a, time.at(steps - 1) * step_size);
    }
    handover.publish(a, steps - 1);
    items.at_rows(
        [&](const auto& valid, const auto& at) { items.store_last(a, steps, valid, at); });
    if (!kMasked) return;
    items.masks.clear();
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) store_step(t * step_size);
  }
  RNNC_MEMBER void store_step(int64 t_offset) const {
    items.store_states_of(a, t_offset);
    items.store_saved_of(a, t_offset);
  }
};

RNNC_INLINE void run(const StagedForwardArguments& a) {
  const int64 first_row = (a.first_tile + blockIdx.y) * Plan::kBlockRows;
  const TileSteps tile_steps(a, first_row, Plan::kBlockRows);
  in_order(blockIdx.x, a.heads, [&](const Order& order) {
    StagedForward block(a, order, static_cast<int>(tile_steps.of(a)), first_row);
    block.load();
    block.begin();
    block.run_steps();
    block.end();
  });
}

}  // namespace rnnc::block_forward
