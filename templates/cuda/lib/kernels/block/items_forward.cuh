// The forward of a block plan: its layout of shared memory, and the items of a thread.
#pragma once

#include "lib/cell/items_forward.cuh"
#include "lib/cell/unweighted_copy.cuh"
#include "lib/copy/reset_copy.cuh"
#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/mma/gate_weights.cuh"

namespace rnnc::block_forward {

constexpr int kDimKTiles = ceil_div(Plan::kHeadDim, kKTile);
using StateExchange = BlockExchange<kDimKTiles * kKTile>;
constexpr int kBufferBytes = Cell::kSources * StateExchange::kBytes;
using InputCopy = RowCopy<Cell::kInputGates, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
// What rows may restart from before a step lies behind its inputs.
using StateCopy = RowCopy<1, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
using ResetCopy = rnnc::ResetCopy<Plan, StateCopy, 32 * Plan::kWarps>;
constexpr int kStageBytes = InputCopy::kBytes + ResetCopy::kBytes;
using UnweightedCopy =
    rnnc::UnweightedCopy<StateCopy, 32 * Plan::kWarps, Plan::kUnitGroups,
                         Plan::kThreadRows, 32 * Plan::kWarps, Plan::kNumStages>;
constexpr int kUnweightedOffset = 2 * kBufferBytes + Plan::kNumStages * kStageBytes;
constexpr int kSharedBytes = kUnweightedOffset + UnweightedCopy::kBytes;
static_assert(kSharedBytes == Plan::kPlannedShared, "the plan counted another size");

using Tiles = GateTiles<Plan::kUnitGroups>;
using Weights = GateWeights<Tiles, kDimKTiles, Plan::kHeadDim>;
// Two for a single tile, and for float32, where three instructions and an addition depend on each
// other.
constexpr int kNumAccumulators = Weights::kTiles == 1 || kPack == 1 ? 2 : 1;
using Product = Accumulator<kNumAccumulators>[Weights::kTiles];

// Item (group, j) of a thread is unit first_unit + 8 group + lane / 4 and column 2 quad + j, which
// holds the batch row at place first_row + Plan::kThreadRows quad + j. If there is no such unit or
// row, the thread computes another item's values and stores none.
struct Items : ForwardItems<Plan::kUnitGroups, Plan::kThreadRows> {
  int64
      offset_bytes[Plan::kThreadRows];  // an address is a uniform pointer and one of these offsets
  PerItem<bool> valid;
  // In an exchange buffer and in stages, in bytes.
  PerItem<int> exchange_offset, input_offset;
  // The same of what states restart from and of copied inputs, in two parts.
  int copied_offset[Plan::kThreadRows], copied_group[Plan::kUnitGroups];
  // The gates of the next step without the product: ready before h is, they seed the accumulators
  // of two-byte elements.
  PerItem<Gates> base;

  RNNC_MEMBER void load(const ForwardArguments& a, int64 head, int64 first_row, int first_unit,
                        int lane) {
    const int unit = pin(first_unit + (lane >> 2)), quad = lane & 3;
    const int64 plane = a.heads * Plan::kHeadDim, row = first_row + Plan::kThreadRows * quad;
    constexpr bool whole = Plan::kHeadDim % (8 * Plan::kUnitGroups) == 0;
    const int64 rows_left = a.batch - row;
    const int valid_rows = pin(rows_left < 1                   ? 0
                               : rows_left < Plan::kThreadRows ? 1
                                                               : Plan::kThreadRows);
    repeat<Plan::kThreadRows>([&](int j) {
      const int64 place = j < valid_rows ? row + j : 0, real_row = row_at(a, place);
      masks.place_row(j, real_row, place);
      unweighted.place_row(j, real_row);
      const int first = whole || unit < Plan::kHeadDim ? unit : 0;
      const int64 real_unit = head * Plan::kHeadDim + first;
      copied_offset[j] = kept(StateCopy::offset(Plan::kThreadRows * quad + j, first));
      offset_bytes[j] = launder((real_row * plane + real_unit) * int64{sizeof(Element)});
    });
    repeat<Plan::kUnitGroups>([&](int group) {
      const bool exists = whole || unit + 8 * group < Plan::kHeadDim;
      const int group_unit = exists ? 8 * group : 0, real_unit = exists ? unit + 8 * group : 0;
      copied_group[group] = StateCopy::offset(0, group_unit);
      load_unit(group, a, plane, head * Plan::kHeadDim + real_unit);
      masks.place_unit(group, head * Plan::kHeadDim + real_unit);
      unweighted.place_unit(group, head, real_unit);
      repeat<Plan::kThreadRows>([&](int j) {
        valid[group][j] = exists && j < valid_rows;
        unweighted.place_copy(group, j, copied_offset[j] + copied_group[group]);
        exchange_offset[group][j] = launder(StateExchange::offset(2 * quad + j, unit + 8 * group));
        input_offset[group][j] =
            launder(InputCopy::offset(Plan::kThreadRows * quad + j, real_unit));
        repeat<Cell::kStates>([&](int s) {
          state[group][j][s] =
              to_real(*element_at(a.initial_states[s] + group_unit, offset_bytes[j]));
        });
      });
    });
  }
  RNNC_MEMBER void publish(char* buffer, const PerItem<States>& states) const {
    for_each([&](int group, int j) {
      repeat<Cell::kSources>([&](int source) {
        if (valid[group][j]) {
          *reinterpret_cast<Element*>(buffer + source * StateExchange::kBytes +
                                      exchange_offset[group][j]) =
              to_element<Element>(states[group][j][kSourceState[source]]);
        }
      });
    });
  }
  // Bias and input of the gates, then what the states add to them.
  RNNC_MEMBER void start_base(const char* stage) {
    for_each([&](int group, int j) {
      start_gates(base[group][j], bias[group], InputCopy::read(stage, input_offset[group][j]));
      unweighted.set(base[group][j], group, j);
      repeat<Cell::kGates>([&](int g) { base[group][j][g] = launder(base[group][j][g]); });
    });
  }
  // What rows that restart before the step of `stage` begin from.
  RNNC_MEMBER void read_resets(const char* stage) {
    if constexpr (kResetsAhead) {
      for_each([&](int group, int j) {
        const int offset = InputCopy::kBytes + copied_offset[j] + copied_group[group];
        masks.read_reset(group, j, [&](int s) { return ResetCopy::read(stage, s, offset); });
      });
    }
  }
  RNNC_MEMBER void add_states() {
    for_each(
        [&](int group, int j) { add_diagonal(base[group][j], diagonal[group], state[group][j]); });
  }

  RNNC_MEMBER void seed(Product& product) const {
    Tiles::for_pairs([&](auto pair, auto group, auto tile, auto half) {
      if constexpr (kSeeded && first_of_gate(pair)) {
        repeat<Plan::kThreadRows>(
            [&](int j) { product[tile].part[0][2 * half + j] = base[group][j][kPairGate[pair]]; });
      }
    });
  }
  RNNC_MEMBER void finish_gates(PerItem<Gates>& gate, const Product& product) const {
    for_each([&](int group, int j) { assign(gate[group][j], base[group][j]); });
    Tiles::for_pairs([&](auto pair, auto group, auto tile, auto half) {
      repeat<Plan::kThreadRows>([&](int j) {
        const float total = product[tile].total(2 * half + j);
        real& sum = gate[group][j][kPairGate[pair]];
        sum = kSeeded && first_of_gate(pair) ? total : sum + total;
      });
    });
  }

  // Calls body(valid, at) with what the functions that store take, for a step at t_offset into [T,
  // B, N, D].
  template <typename Body>
  RNNC_MEMBER void at_step(int64 t_offset, const Body& body) const {
    body([&](int group, int j) { return valid[group][j]; },
         [&](Element* tensor, int n, int group, int j) {
           return element_at(tensor + (t_offset + 8 * group) * n, offset_bytes[j] * n);
         });
  }
  // The same for a tensor of states, [B, N, D].
  template <typename Body>
  RNNC_MEMBER void at_rows(const Body& body) const {
    at_step(0, body);
  }
  // Stores the results of the step at t_offset.
  RNNC_MEMBER void store_step(const ForwardArguments& a, int64 t_offset) const {
    at_step(t_offset, [&](const auto& valid, const auto& at) { store(a, valid, at); });
  }
  // Stores zeros for a step that no row of the tile runs.
  RNNC_MEMBER void store_zeros(const ForwardArguments& a, int64 t_offset) {
    masks.clear();
    at_step(t_offset, [&](const auto& valid, const auto& at) { store_states(a, valid, at); });
  }
};

}  // namespace rnnc::block_forward
