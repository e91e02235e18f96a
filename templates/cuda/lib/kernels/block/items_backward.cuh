// The backward of a block plan: its layout of shared memory, the items of a thread, and the copies
// of what a step reads.
#pragma once

#include "lib/cell/items_backward.cuh"
#include "lib/cell/unweighted_copy.cuh"
#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
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
using UnweightedCopy =
    rnnc::UnweightedCopy<StateCopy, 32 * Plan::kWarps, 2, Plan::kThreadRows,
                         32 * Plan::kWarps, Plan::kNumStages>;
constexpr int kUnweightedOffset =
    2 * GradientExchange::kBytes + Plan::kNumStages * kStageBytes;
constexpr int kSharedBytes = kUnweightedOffset + UnweightedCopy::kBytes;
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
        unweighted.place_copy(half, j, state_offset[half][j]);
        load_states(half, j, a, time, tile_steps, a.batch * plane, [&](const Element* tensor) {
          return element_at(tensor + half_unit, offset_bytes[j]);
        });
      });
    });
    masks.begin(a, time, tile_steps.of(a));
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
      // In reverse there is no such value before the first step.
      if (kResetsAhead && kReads[s] && (t > 0 || !time.reversed)) {
        const Element* const values =
            reset_value(a, s, time.at(t), 0, first_unit, time.reversed);
        state.issue(to + reset_offset(s), values, a.masks.reset_row[s]);
      }
    });
  }
};

}  // namespace rnnc::block_backward
