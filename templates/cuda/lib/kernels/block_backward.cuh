// Backward kernel of a block plan: one block runs all steps of one head and some batch rows, with R
// transposed in registers and the gradients of the gates in shared memory.
//
// A warp owns 16 units, the rows of one m16 tile: a thread has the units lane / 4 and lane / 4 + 8
// and the columns 2q and 2q + 1, q = lane % 4. For each source, K runs over the units of every pair
// (gate, source). Gradients of biases, params and diagonal weights are summed over time in
// registers.
#pragma once

#include "lib/cell/items_backward.cuh"
#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/exchange/handover.cuh"
#include "lib/mma/gate_major_weights.cuh"

namespace rnnc::block_backward {

constexpr int kWarpUnits = 16;
constexpr int kPaddedDim = round_up(Plan::kHeadDim, kWarpUnits);
using K = GateMajorK<kPaddedDim, Plan::kHeadDim>;
using GradientExchange = BlockExchange<K::all_k_tiles() * kKTile>;
using SavedCopy = RowCopy<Cell::kSaved, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
using StateCopy = RowCopy<1, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
// What a step reads: saved values, then for each state its values before the step and its gradients
// after it; last, what rows may have restarted from.
RNNC_CONSTEXPR int before_offset(int state) {
  return SavedCopy::kBytes + 2 * state * StateCopy::kBytes;
}
RNNC_CONSTEXPR int reset_offset(int state) {
  return before_offset(Cell::kStates) + (kResetsAhead ? states_read(state) * StateCopy::kBytes : 0);
}
constexpr int kStageBytes = reset_offset(Cell::kStates);
constexpr int kSharedBytes = 2 * GradientExchange::kBytes + Plan::kNumStages * kStageBytes;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");

constexpr int kNumAccumulators = kPack == 1 ? 2 : 4;
using Product = Accumulator<kNumAccumulators>[1][at_least_one(Cell::kSources)];
using Weights = GateMajorWeights<K, 1, Plan::kHeadDim* static_cast<int>(sizeof(Element)),
                                 32 * Plan::kWarps, kSharedBytes>;

// Item (half, j) of a thread is unit first_unit + 8 half + lane / 4 and column 2 quad + j, which
// holds the batch row at place first_row + Plan::kThreadRows quad + j. If there is no such unit or
// row, the thread computes another item's values and stores none.
struct Items : BackwardItems<2, Plan::kThreadRows> {
  int unit, quad;
  int64 first_unit_offset;  // of the first unit, in [N, D]
  int64
      offset_bytes[Plan::kThreadRows];  // an address is a uniform pointer and one of these offsets
  PerItem<bool> valid;
  PerItem<int> saved_offset, state_offset;  // in a stage, in bytes

  RNNC_MEMBER void load(const BackwardArguments& a, int64 head, int64 first_row, int first_unit,
                        int lane, const TileSteps& tile_steps, const Order& order) {
    unit = first_unit + (lane >> 2);
    quad = lane & 3;
    const int64 plane = a.heads * Plan::kHeadDim, row = first_row + Plan::kThreadRows * quad;
    const TimeOrder time(tile_steps.of(a), order);
    constexpr bool whole = Plan::kHeadDim % kWarpUnits == 0;
    first_unit_offset = head * Plan::kHeadDim + (whole || unit < Plan::kHeadDim ? unit : 0);
    bool row_valid[Plan::kThreadRows];
    repeat<Plan::kThreadRows>([&](int j) {
      row_valid[j] = row + j < a.batch;
      const int64 place = row_valid[j] ? row + j : 0, real_row = row_at(a, place);
      masks.place_row(j, real_row, place);
      unweighted.place_row(j, real_row);
      offset_bytes[j] = launder((real_row * plane + first_unit_offset) * int64{sizeof(Element)});
    });
    repeat<2>([&](int half) {
      const bool exists = whole || unit + 8 * half < Plan::kHeadDim;
      const int half_unit = exists ? 8 * half : 0, real_unit = exists ? unit + 8 * half : 0;
      load_unit_weights(param[half], diagonal[half], a, plane, head * Plan::kHeadDim + real_unit);
      masks.place_unit(half, head * Plan::kHeadDim + real_unit);
      unweighted.place_unit(half, head, real_unit);
      repeat<Plan::kThreadRows>([&](int j) {
        valid[half][j] = exists && row_valid[j];
        saved_offset[half][j] = launder(SavedCopy::offset(Plan::kThreadRows * quad + j, real_unit));
        state_offset[half][j] = launder(StateCopy::offset(Plan::kThreadRows * quad + j, real_unit));
        load_states(half, j, a, time, tile_steps, a.batch * plane, [&](const Element* tensor) {
          return element_at(tensor + half_unit, offset_bytes[j]);
        });
      });
    });
    masks.begin(a, time, tile_steps.of(a));
    unweighted.load(a, time, tile_steps.of(a) - 1, tile_steps.of(a));
  }

  // Computes the gradients of an item's gates and of the states before the step, but for the
  // product, from data in `stage`; publishes those of the gates in `buffer`.
  RNNC_MEMBER void step(int half, int j, const BackwardArguments& a, const char* stage,
                        char* buffer, Gates& d_gate) {
    ReadValues saved;
    States last, before;
    Params d_param;
    unpack_saved(saved, SavedCopy::read(stage, saved_offset[half][j]));
    unweighted.set_read(saved, half, j);
    repeat<Cell::kStates>([&](int s) {
      const char* const states = stage + before_offset(s);
      last[s] = kReads[s] ? StateCopy::read(states, state_offset[half][j])[0] : real(0);
      if (a.d_states[s]) {
        d_state[half][j][s] +=
            StateCopy::read(states + StateCopy::kBytes, state_offset[half][j])[0];
      }
    });
    if constexpr (kResetsAhead) {
      repeat<Cell::kStates>([&](int s) {
        if (!kReads[s]) return;
        const real value = StateCopy::read(stage + reset_offset(s), state_offset[half][j])[0];
        masks.set_reset(half, j, s, launder(value));
      });
    }
    masks.select_before(half, j, before, last);
    apply_pointwise_backward(saved, before, after[half][j], param[half], d_state[half][j], d_gate,
                             d_param);
    add_diagonal_gradient(d_state[half][j], diagonal[half], d_gate);
    unroll<Cell::kSources>([&](auto source) {
      repeat<kSourcePairs[source]>([&](int i) {
        const int k = K::first_k_tile(source) * kKTile + i * kPaddedDim + unit + 8 * half;
        if (valid[half][j]) {
          *reinterpret_cast<Element*>(buffer + GradientExchange::offset(2 * quad + j, k)) =
              to_element<Element>(d_gate[kPairGate[kSourceFirstPair[source] + i]]);
        }
      });
    });
    // Rows and units that do not exist add nothing, whatever the equations give for zeros.
    if (valid[half][j] && masks.runs(j)) add_to_sums(sums[half], d_gate, d_param, before);
    assign(after[half][j], last);
  }

  // Stores the gradients of an item's gates; the tensors start at the step.
  RNNC_MEMBER void store_gates(int half, int j, Element* d_wx, Element* d_no_input,
                               const Gates& d_gate) const {
    PackedGates packed(d_gate);
    packed.clear_unless(masks.has_run(j));
    if (valid[half][j]) {
      packed.store(
          element_at(d_wx + 8 * half * Cell::kInputGates, offset_bytes[j] * Cell::kInputGates),
          element_at(d_no_input + 8 * half * kGatesNoInput, offset_bytes[j] * kGatesNoInput));
    }
  }
  RNNC_MEMBER void store_sums_at(const BackwardArguments& a, int64 t, int64 steps) {
    // The four lanes of a quad hold the rows of one unit.
    store_sums<3>([&](int half, int k, real total) {
      if (quad == 0 && unit + 8 * half < Plan::kHeadDim) {
        const int64 part = (a.first_tile + blockIdx.y) * Cell::kSums + k;
        store_part_sum(a.sums + part * (a.heads * Plan::kHeadDim) + first_unit_offset + 8 * half,
                       total, t, steps);
      }
    });
  }
};

// Copies what a step reads, several steps ahead.
struct StepCopy {
  SavedCopy saved;
  StateCopy state;
  RestartsCopy<StateCopy> restarts;
  int64 first_unit;        // the head's, in [N, D]
  int64 plane, step_size;  // units of [N, D] and of [B, N, D]
  TimeOrder time;

  RNNC_MEMBER void prepare(const BackwardArguments& a, int64 head, int64 first_row, int steps,
                           const Order& order) {
    first_unit = head * Plan::kHeadDim;
    plane = a.heads * Plan::kHeadDim;
    step_size = a.batch * plane;
    time = TimeOrder(steps, order);
    restarts.begin(a, time, first_row, threadIdx.x == 0);
    saved.prepare(a, first_row);
    state.prepare(a, first_row);
  }
  RNNC_MEMBER void issue(const BackwardArguments& a, int t, char* to) const {
    const int64 t_offset = time.at(t) * step_size + first_unit;
    restarts.issue(to + before_offset(0), time.at(t));
    saved.issue(to, a.saved + t_offset * Cell::kSaved, plane * Cell::kSaved);
    repeat<Cell::kStates>([&](int s) {
      char* const states = to + before_offset(s);
      if (kReads[s]) {
        const Element* const before = t > 0 ? a.states[s] + (t_offset - time.stride(step_size))
                                            : a.initial_states[s] + first_unit;
        state.issue(states, before, plane);
      }
      if (a.d_states[s]) {
        state.issue(states + StateCopy::kBytes,
                    a.d_states[s] + time.at(t) * a.d_states_time[s] + first_unit,
                    a.d_states_row[s]);
      }
#ifdef RNNC_RESETS_AHEAD
      // In reverse there is no such value before the first step.
      if (kReads[s] && (t > 0 || !time.reversed)) {
        const Element* const values =
            reset_value(a, s, time.at(t), 0, first_unit, time.reversed);
        state.issue(to + reset_offset(s), values, a.masks.reset_row[s]);
      }
#endif
    });
  }
};

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
  Handover<true> handover(a);
  const auto prefetch = [&](int t, int stage_idx) {
    if (t >= 0) {
      handover.wait(a, t);
      copy.issue(a, t, stages + stage_idx * kStageBytes);
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
    items.for_each(
        [&](int half, int j) { items.step(half, j, a, stage, buffer, d_gate[half][j]); });
    items.unweighted.load(a, copy.time, t - 1, steps);
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
    stage_idx = next_stage<Plan::kNumStages>(stage_idx);
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
