// Backward kernel of a block plan for cells with stages: one block runs all steps of one head and
// some batch rows, as in lib/kernels/block_backward.cuh.
//
// The stages of a step run in the order of the backward. A stage writes the gradients of its gates
// to shared memory, and its warps' parts of sums over the units. After a barrier the next stage has
// the products with R transposed of called gates, and the sums. The product for the states comes
// last. Parts of sums have one buffer: all warps have read it before the last barrier of the step.
//
// The copy of an earlier step's data takes the place of this step's, which all warps have read before
// the last barrier. A kernel that computes ahead reads the data of the next step too: these copies have
// come before the last barrier of the step before this one.
//
// In a wavefront no step is read or handed over early: each thread waits for the chunk of a step
// before it copies any of its gradients, and a warp says that step t + 1 is stored after its stores
// of it: at the end of step t or, where gradients take the way by shared memory, beside step t.
#pragma once

#include "lib/exchange/handover.cuh"
#include "lib/stages/block/items_backward.cuh"

namespace rnnc::block_backward {

// Whether a step computes ahead for the step that follows it: while shuffles of its first statistic
// wait. Inputs of the cell are those of one step. With masks, what that step began from is known
// later, and nothing is computed ahead.
#ifdef RNNC_UNWEIGHTED
constexpr bool kAheadOfStep = false;
#else
constexpr bool kAheadOfStep = kLooksAhead;
#endif

// What a thread does for the steps of its block.
struct StagedBackward {
  const StagedBackwardArguments& a;
  const TileSteps tile_steps;
  const int steps, lane, warp;
  const int64 head, first_row;

  Weights weights;
  StagedItems items;
  const TimeOrder time;
  StepData data;
  NumberCopy number_copy;
  UnweightedCopy unweighted;
  InputGateStore input_store;
  OtherGateStore other_store;
  DirectInputStore input_direct;
  DirectOtherStore other_direct;
  Handover<true> handover;
  int64 step_size;           // of [B, N, D]
  int fragment;
  int place;                 // among those of copies: of the step
  int buffer;                // offset of the step's gradients; those of the step before it have
                             // the other one

  RNNC_MEMBER StagedBackward(const StagedBackwardArguments& arguments, const TileSteps& count,
                             const Order& order, int64 row)
      : a(arguments), tile_steps(count), steps(static_cast<int>(count.of(arguments))),
        lane(pin(static_cast<int>(threadIdx.x & 31))),
        warp(pin(static_cast<int>(threadIdx.x >> 5))), head(blockIdx.x), first_row(row),
        time(steps, order), handover(arguments) {}

  static RNNC_MEMBER char* data_at(int place) {
    return shared + 2 * GradientExchange::kBytes + place * kStageBytes;
  }
  static RNNC_MEMBER char* parts() { return shared + kSharedBytes; }
  static RNNC_MEMBER char* numbers_at(int place) {
    return parts() + Statistics::kBytes + place * NumberCopy::kBytes;
  }
  static RNNC_MEMBER char* input_rows() { return numbers_at(Plan::kNumStages); }
  static RNNC_MEMBER char* other_rows() { return input_rows() + InputGateStore::kBytes; }
  // Begins to copy what step t reads, or nothing before the first.
  RNNC_MEMBER void copy_data(int t, int to) {
    if (t >= 0) handover.wait(a, t);
    data.issue(shared_address(data_at(to)), t, time.reversed);
    number_copy.issue(shared_address(numbers_at(to)), t >= 0);
    if (t >= 0) unweighted.issue(a, time, to);
    cp_async_commit();
  }
  RNNC_MEMBER States& state(int half, int j) { return items.d_state[half][j]; }
  // Before step t: returns the last step of the part of the steps that begins with it.
  RNNC_MEMBER int begin_part(int t) {
    return items.parts.begin_part(
        items.masks, a, time, first_row, t, steps,
        [&](int half, int j) -> States& { return state(half, j); });
  }

  RNNC_MEMBER void load(const Order& order) {
    const int warp_unit = warp * kWarpUnits;
    weights.load(shared, a.R, a.heads, head, 0, lane, [&](int, int half) {
      const int own = warp_unit + 8 * half + (lane >> 2);
      __builtin_assume(kPaddedDim > Plan::kHeadDim || own < Plan::kHeadDim);
      return own;
    });
    items.load(a, head, first_row, warp_unit, lane, tile_steps, order);
    items.pin_places();
    for (int word = threadIdx.x; word < 2 * GradientExchange::kBytes / 4; word += blockDim.x) {
      reinterpret_cast<u32*>(shared)[word] = 0u;
    }
    step_size = launder(a.batch * a.heads * Plan::kHeadDim);
    data.begin(a, time, head, first_row, steps);
    items.parts.begin(items.masks, a, time, first_row, steps);
    unweighted.start(items.unweighted, a, time, steps - 1, shared + kUnweightedOffset,
                     threadIdx.x, 0, first_row, 1);
    number_copy.begin(a, time, steps - 1, head, first_row, threadIdx.x);
    begin_store(input_store, input_direct, a.d_wx, Cell::kInputGates);
    begin_store(other_store, other_direct, a.d_gates_no_input, kGatesNoInput);
    fragment = launder(GradientExchange::first_fragment(lane));
    buffer = place = 0;
  }
  // Rows go to memory a step later: in the step that runs first there are none.
  template <typename Rows, typename Direct>
  RNNC_MEMBER void begin_store(Rows& rows, Direct& direct, Element* tensor, int gates) {
    const int64 row = a.heads * Plan::kHeadDim, step_stride = -time.stride(step_size);
    rows.begin(a, first_row, row * gates, tensor ? tensor + head * Plan::kHeadDim * gates : nullptr,
               time.at(steps), step_size * gates, step_stride * gates);
    direct.begin(tensor, time.at(steps - 1), step_size, step_stride, items.offset_bytes);
    if (kMasked) rows.keep_stride(), direct.keep_stride();
  }
  // Before the last step, which runs first.
  RNNC_MEMBER void begin() {
#pragma unroll 1
    for (int i = 0; i < Plan::kNumStages; ++i) copy_data(steps - 1 - i, i);
    cp_async_wait<maximum(Plan::kNumStages - (kAheadOfStep ? 2 : 1), 0)>();
    __syncthreads();
  }

  static constexpr bool kStoresRows = InputGateStore::kUsed || OtherGateStore::kUsed;
  // After all warps have met: stores the gradients of step t that are in shared memory.
  RNNC_MEMBER void store_rows(int t) {
    input_store.store(input_rows(), t < steps);
    other_store.store(other_rows(), t < steps);
    handover.publish(a, t);
  }

  template <int stage>
  RNNC_MEMBER void run_stage(int t) {
    if constexpr (stage > 0) {
      if constexpr (exchanges_before(stage)) __syncthreads();
      Product product;
      items.multiply_for<stage>(product, weights, shared + buffer, fragment);
      if constexpr (kStoresRows && stage == first_meeting()) store_rows(t + 1);
      items.add_products<stage>(product);
      items.multiply_weights<stage>();
      Statistics::collect<stage>(parts(), lane, items.sum);
    }
    items.for_each([&](int half, int j) {
      items.run_stage<stage>(half, j, data_at(place), numbers_at(place), shared + buffer);
    });
    if constexpr (kAheadOfStep && stage == 0) look_ahead_of_step();
    Statistics::publish<stage + 1>(
        parts(), warp, lane, [&](int half, int j, int k) { return items.value[half][j][k]; });
  }

  RNNC_MEMBER void store_zeros(int64 in_memory) const {
    const int64 offset = in_memory * step_size;
    items.for_each([&](int half, int j) {
      items.store_gates(half, j, a.d_wx + offset * Cell::kInputGates,
                        a.d_gates_no_input + offset * kGatesNoInput, items.d_gate[half][j]);
    });
  }

  static RNNC_MEMBER int after(int place) {
    return place + 1 < Plan::kNumStages ? place + 1 : 0;
  }
  // Of the step that follows this one. Beyond the last there is none: what comes of it is not used.
  RNNC_MEMBER void look_ahead_of_step() {
    const int next = after(place);
    items.for_each([&](int half, int j) {
      items.look_ahead(half, j, data_at(next), numbers_at(next));
    });
  }
  // Of the step itself.
  RNNC_MEMBER void look_ahead() {
    items.for_each([&](int half, int j) {
      items.look_ahead(half, j, data_at(place), numbers_at(place), items.before[half][j],
                       items.after[half][j]);
    });
  }

  RNNC_MEMBER void run_step(int t) {
    unweighted.receive(items.unweighted, a, time, place);
    items.for_each([&](int half, int j) { items.begin_step(half, j, a, data_at(place)); });
    if constexpr (!kAheadOfStep) look_ahead();
    unroll<Cell::kStages>([&](auto stage) { run_stage<decltype(stage)::value>(t); });
    items.end_stages();
    if (kSumsInParts && t % kPartSteps == 0) items.store_sums_at(a, t, tile_steps.of(a));
    cp_async_wait<maximum(Plan::kNumStages - (kAheadOfStep ? 3 : 2), 0)>();
    __syncthreads();
    Product product;
    items.multiply_for<Cell::kStages>(product, weights, shared + buffer, fragment);
    // The copy of an earlier step's data takes the place of this step's.
    copy_data(t - Plan::kNumStages, place);
    place = after(place);
    buffer ^= GradientExchange::kBytes;
    if constexpr (!kStoresRows) handover.publish(a, t + 1);
    items.write_gates(input_rows(), other_rows(), input_direct, other_direct);
    items.add_products<Cell::kStages>(product);
    items.parts.cross(
        items.masks, a, [&](int half, int j) { return items.valid[half][j]; },
        [&](int half, int j) -> States& { return state(half, j); });
  }
  RNNC_MEMBER void run_parts() {
    int t = steps - 1;
    if constexpr (kAheadOfStep) {
      // The first step has nobody who looks ahead for it.
      items.for_each([&](int half, int j) {
        assign(items.last[half][j], items.after[half][j]);
        items.look_ahead(half, j, data_at(place), numbers_at(place));
      });
    }
    do {
      const int last = begin_part(t);
#pragma unroll 1
      for (; t >= last; --t) run_step(t);
    } while (kMasked && t >= 0);
  }

  // After all steps: stores the sums, the gradients of the initial states, and zeros for steps that
  // no row of the block runs.
  RNNC_MEMBER void end() {
    if constexpr (kStoresRows) {
      __syncthreads();
      store_rows(0);
    } else {
      handover.publish(a, 0);
    }
    if (!kSumsInParts) items.store_sums_at(a, 0, tile_steps.of(a));
    items.parts.end(items.masks, a,
                    [&](int half, int j) -> States& { return state(half, j); });
    const auto valid = [&](int half, int j) { return items.valid[half][j]; };
    items.store_initial(a, steps, valid, [&](Element* tensor, int half, int j) {
      return element_at(tensor + 8 * half, items.offset_bytes[j]);
    });
    if (!kMasked) return;
    items.for_each([&](int half, int j) {
      repeat<Cell::kGates>([&](int gate) { items.d_gate[half][j][gate] = 0; });
    });
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) store_zeros(t);
  }
};

RNNC_INLINE void run(const StagedBackwardArguments& a) {
  const int64 first_row = (a.first_tile + blockIdx.y) * Plan::kBlockRows;
  const TileSteps tile_steps(a, first_row, Plan::kBlockRows);
  in_order(blockIdx.x, a.heads, [&](const Order& order) {
    StagedBackward block(a, tile_steps, order, first_row);
    block.load(order);
    block.begin();
    block.run_parts();
    block.end();
  });
}

}  // namespace rnnc::block_backward
