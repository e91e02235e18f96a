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

#include "lib/cell/items_forward.cuh"
#include "lib/copy/reset_copy.cuh"
#include "lib/copy/row_copy.cuh"
#include "lib/exchange/block_exchange.cuh"
#include "lib/exchange/handover.cuh"
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
constexpr int kSharedBytes = 2 * kBufferBytes + Plan::kNumStages * kStageBytes;
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
  int reset_offset[Plan::kThreadRows], reset_group[Plan::kUnitGroups];
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
      reset_offset[j] = kept(StateCopy::offset(Plan::kThreadRows * quad + j, first));
      offset_bytes[j] = launder((real_row * plane + real_unit) * int64{sizeof(Element)});
    });
    repeat<Plan::kUnitGroups>([&](int group) {
      const bool exists = whole || unit + 8 * group < Plan::kHeadDim;
      const int group_unit = exists ? 8 * group : 0, real_unit = exists ? unit + 8 * group : 0;
      reset_group[group] = StateCopy::offset(0, group_unit);
      load_unit(group, a, plane, head * Plan::kHeadDim + real_unit);
      masks.place_unit(group, head * Plan::kHeadDim + real_unit);
      unweighted.place_unit(group, head, real_unit);
      repeat<Plan::kThreadRows>([&](int j) {
        valid[group][j] = exists && j < valid_rows;
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
        const int offset = InputCopy::kBytes + reset_offset[j] + reset_group[group];
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
  Handover<false> handover(a);
  const int64 row_stride = kept(a.wx_row), time_stride = kept(time.stride(a.wx_time));
  const auto prefetch = [&](int t, int stage_idx, bool is_first) {
    if (t < steps) {
      handover.wait(a, t);
      char* const stage = inputs + stage_idx * kStageBytes;
      input.issue(stage, next_input, kMasked ? row_stride : a.wx_row);
      next_input += kMasked ? time_stride : time.stride(a.wx_time);
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
      // While the product runs: read what rows may restart from, store the results of the last step,
      // and copy a later input into the stage of this step's.
      if constexpr (kResetsAhead) {
        items.read_resets(inputs + next_stage<Plan::kNumStages>(stage_idx) * kStageBytes);
      }
      handover.publish(a, t - 2);
      if (t > 0) {
        items.store_step(a, t_offset);
        t_offset += time.stride(step_size);
      }
      prefetch(t + Plan::kNumStages, stage_idx, false);
      cp_async_wait<Plan::kNumStages - 2>();
      stage_idx = next_stage<Plan::kNumStages>(stage_idx);

      Items::PerItem<Gates> gate;
      items.finish_gates(gate, product);
      items.start_base(inputs + stage_idx * kStageBytes);
      items.unweighted.load(a, time, t + 2, steps);
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
