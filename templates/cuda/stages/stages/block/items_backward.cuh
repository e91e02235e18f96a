// The backward of a block plan for cells with stages: what it adds to the items of a thread, and to
// the layout of shared memory.
#pragma once

#include "lib/stages/one_stage_backward.cuh"
// Its items need the above.
#include "lib/kernels/block/items_backward.cuh"
#include "lib/stages/block/row_store.cuh"
#include "lib/stages/block/statistics.cuh"
#include "lib/stages/block/step_data_backward.cuh"
#include "lib/stages/block/step_parts.cuh"
#include "lib/stages/number_copy.cuh"
#include "lib/stages/result_store.cuh"
#include "lib/stages/sums.cuh"

namespace rnnc::block_backward {

using Statistics = BlockStatistics<2, Plan::kThreadRows, Plan::kWarps, Plan::kHeadDim>;
using Sums = real[at_least_one(Cell::kStageSums)];

using NumberCopy = rnnc::NumberCopy<Plan::kBlockRows, 32 * Plan::kWarps>;
template <int gates>
using GateStore =
    RowStore<gates, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim, kWarpUnits>;
using InputGateStore = GateStore<Cell::kInputGates>;
using OtherGateStore = GateStore<kGatesNoInput>;
using DirectInputStore = ResultStore<Cell::kInputGates, Plan::kThreadRows>;
using DirectOtherStore = ResultStore<kGatesNoInput, Plan::kThreadRows>;
static_assert(Statistics::kBytes + Plan::kNumStages * NumberCopy::kBytes + InputGateStore::kBytes +
                      OtherGateStore::kBytes ==
                  Plan::kStagedShared,
              "the plan counted another size");

struct StagedItems : Items {
  PerItem<Values> value;
  PerItem<Ahead> ahead;
  PerItem<Gates> d_gate;
  PerItem<States> last, before;  // states after the step before, and those that this step began from
  Sums sum[Plan::kThreadRows];
  StepParts<2, Plan::kThreadRows> parts;
  static constexpr bool kWhole = Plan::kHeadDim % kWarpUnits == 0;  // no unit is padding
  int stored[kWhole ? 1 : 2][Plan::kThreadRows];  // whether the item's gradients are stored

  // NOTE: the compiler would read the thread's index again for each gradient that a step publishes.
  RNNC_MEMBER void pin_places() {
    unit = pin(unit);
    quad = pin(quad);
    repeat<kWhole ? 1 : 2>([&](int half) {
      repeat<Plan::kThreadRows>(
          [&](int j) { stored[half][j] = pin(int{valid[half][j]}); });
    });
  }

  // Reads the states of a step, and adds the gradients that arrive from outside.
  RNNC_MEMBER void begin_step(int half, int j, const BackwardArguments& a, const char* stage) {
    const auto read = [&](int offset) -> real {
      return StateCopy::read(stage + offset, state_offset[half][j])[0];
    };
    repeat<Cell::kStates>([&](int s) {
      last[half][j][s] = kReads[s] ? read(before_offset(s)) : real(0);
      if (a.d_states[s]) d_state[half][j][s] += read(before_offset(s) + StateCopy::kBytes);
      if (kResetsAhead && kReads[s]) {
        parts.set_reset(masks, half, j, s, launder(read(reset_offset(s))));
      }
    });
    parts.select_before(masks, half, j, before[half][j], last[half][j]);
    repeat<Cell::kValues>([&](int k) { value[half][j][k] = 0; });
  }

  // What the first stage of a step reads no gradient for; `then` are the states after the step, and
  // `first` those that it began from.
  RNNC_MEMBER void look_ahead(int half, int j, const char* data, const char* numbers,
                              const States& first, const States& then) {
    ReadValues saved;
    Numbers number;
    read_saved(saved, number, half, j, data, numbers);
    compute_ahead(saved, number, first, then, param[half], ahead[half][j]);
  }
  // The same of a step without masks, whose states have not been read.
  RNNC_MEMBER void look_ahead(int half, int j, const char* data, const char* numbers) {
    States first;
    repeat<Cell::kStates>([&](int s) {
      const auto value = StateCopy::read(data + before_offset(s), state_offset[half][j]);
      first[s] = kReads[s] ? value[0] : real(0);
    });
    look_ahead(half, j, data, numbers, first, last[half][j]);
  }
  RNNC_MEMBER void read_saved(ReadValues& saved, Numbers& number, int half, int j,
                              const char* data, const char* numbers) const {
    unpack_saved(saved, SavedCopy::read(data, saved_offset[half][j]));
    unweighted.set_read(saved, half, j);
    NumberCopy::read(number, numbers, Plan::kThreadRows * quad + j);
  }
  // One stage of an item, from data in `data`: publishes in `buffer` the gradients of gates that it
  // computes, and adds to the sums over time.
  template <int stage>
  RNNC_MEMBER void run_stage(int half, int j, const char* data, const char* numbers,
                             char* buffer) {
    ReadValues saved;
    Params d_param;
    Numbers number;
    read_saved(saved, number, half, j, data, numbers);
    Gates& gradient = d_gate[half][j];
    apply_stage_backward<stage>(saved, number, before[half][j], after[half][j], param[half],
                                ahead[half][j], sum[j], value[half][j], d_state[half][j], gradient, d_param);
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      unroll<kSourcePairs[source]>([&](auto index) {
        constexpr int i = decltype(index)::value, gate = kPairGate[kSourceFirstPair[source] + i];
        if constexpr (kGateStage[gate] == stage) {
          const int k = K::first_k_tile(source) * kKTile + i * kPaddedDim + unit + 8 * half;
          const Element rounded = to_element<Element>(gradient[gate]);
          const int offset = launder(GradientExchange::offset(2 * quad + j, k));
          if (valid[half][j]) *reinterpret_cast<Element*>(buffer + offset) = rounded;
        }
      });
    });
    // Padding adds nothing, whatever the equations give there.
    if (valid[half][j] && parts.runs(j)) {
      add_stage_to_sums<stage>(sums[half], gradient, d_param, before[half][j], saved);
    }
  }

  // The products that a stage needs, from the gradients in `buffer`. What follows runs beside them,
  // until they are added.
  template <int stage>
  RNNC_MEMBER void multiply_for(Product& product, const Weights& weights, const char* buffer,
                                int fragment) const {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      product[0][source].clear();
      weights.template multiply<source, 2 * K::first_k_tile(source)>(
          product, [&](int k_tile) { return GradientExchange::load(buffer, fragment, k_tile); });
    });
  }
  template <int stage>
  RNNC_MEMBER void add_products(const Product& product) {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      for_each([&](int half, int j) {
        const real total = product[0][source].total(2 * half + j);
        if constexpr (kSourceState[source] >= 0) {
          d_state[half][j][kSourceState[source]] += total;
        } else {
          value[half][j][kSourceValue[source]] = total;
        }
      });
    });
  }
  // The products with a weight per unit that a stage needs.
  template <int stage>
  RNNC_MEMBER void multiply_weights() {
    for_weights_of<stage>([&](const StageWeight& weight) {
      for_each([&](int half, int j) {
        value[half][j][weight.value] =
            diagonal[half][weight.weight] * d_gate[half][j][weight.gate];
      });
    });
  }
  // After all stages: adds the gradients of gates to the states that they read through weights per
  // unit, and goes on to the states before the step.
  RNNC_MEMBER void end_stages() {
    for_each([&](int half, int j) {
      assign(after[half][j], last[half][j]);
      repeat<Cell::kStateDiagonals>([&](int n) {
        const int i = kDiagonalOrder[n];
        d_state[half][j][kDiagonalSource[i]] +=
            diagonal[half][i] * d_gate[half][j][kDiagonalGate[i]];
      });
    });
  }

  // Stores the gradients of a step's gates, but for those that a RowStore stores: they go to shared
  // memory.
  RNNC_MEMBER void write_gates(char* inputs, char* others, DirectInputStore& input_store,
                               DirectOtherStore& other_store) const {
    input_store.advance();
    other_store.advance();
    for_each([&](int half, int j) {
      PackedGates packed(d_gate[half][j]);
      packed.clear_unless(parts.runs(j));
      settle(packed.d_wx);
      settle(packed.d_no_input);
      const int row = Plan::kThreadRows * quad + j, own = unit + 8 * half;
      const int holds = stored[kWhole ? 0 : half][j];
      if constexpr (InputGateStore::kUsed) {
        InputGateStore::give(packed.d_wx, valid[half][j], inputs, row, own);
      } else {
        input_store.store(holds, packed.d_wx, j, 8 * half);
      }
      if constexpr (OtherGateStore::kUsed) {
        OtherGateStore::give(packed.d_no_input, valid[half][j], others, row, own);
      } else {
        other_store.store(holds, packed.d_no_input, j, 8 * half);
      }
    });
  }
};

}  // namespace rnnc::block_backward
