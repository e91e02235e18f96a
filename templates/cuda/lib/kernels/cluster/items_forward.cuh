// The forward of a cluster plan: the items of a thread, its copies of inputs, and how the gates of
// items seed accumulators and take their totals.
#pragma once

#include "lib/cell/items_forward.cuh"
#include "lib/exchange/handover.cuh"
#include "lib/exchange/state_push.cuh"

namespace rnnc::cluster_forward {

// Item j of a thread is unit first_unit + lane / 4 and column 2 quad + j, or 2 quad + split, which
// is the batch row at the place that far from the first. If there is no such unit or row, the
// thread computes another item's values and stores none; for a unit that does not exist it pushes
// zeros.
struct Items : ForwardItems<1, kItems> {
  bool exists;      // the unit
  int valid_items;  // how many of the items, the first ones, have results to store
  // An address is a uniform pointer and one of these offsets, in bytes: into [B, N, D], and into
  // [T, B, N, D] at the step whose results are stored next.
  int64 offset_bytes[kItems], t_offset_bytes[kItems], t_stride_bytes;
  int input_offset[kItems], copied_offset[kItems];  // in stages, in bytes

  RNNC_MEMBER void load(const ForwardArguments& a, int64 head, int unit, int64 first_row, int lane,
                        const TileSteps& tile_steps, const Order& order) {
    exists = Plan::kCluster * Plan::kUnits == Plan::kHeadDim || unit < Plan::kHeadDim;
    const int64 plane = a.heads * Plan::kHeadDim,
                real_unit = head * Plan::kHeadDim + (exists ? unit : 0);
    const int quad = lane & 3;
    const int64 item_row = first_row + 2 * quad;
    valid_items = pin(!exists || item_row >= a.batch ? 0 : item_row + 1 < a.batch ? 2 : 1);
    load_unit(0, a, plane, real_unit);
    masks.place_unit(0, real_unit);
    unweighted.place_unit(0, head, exists ? unit : 0);
    repeat<kItems>([&](int j) {
      const int64 place = item_row + j < a.batch ? item_row + j : 0, row = row_at(a, place);
      masks.place_row(j, row, place);
      unweighted.place_row(j, row);
      offset_bytes[j] = launder((row * plane + real_unit) * int64{sizeof(Element)});
      input_offset[j] = launder(InputCopy::offset(kItems * quad + j, exists ? lane >> 2 : 0));
      copied_offset[j] = kept(StateCopy::offset(kItems * quad + j, exists ? lane >> 2 : 0));
      unweighted.place_copy(0, j, copied_offset[j]);
      repeat<Cell::kStates>([&](int s) {
        state[0][j][s] = to_real(*element_at(a.initial_states[s], offset_bytes[j]));
      });
    });
    const TimeOrder time(tile_steps.of(a), order);
    const int64 step_bytes = a.batch * plane * int64{sizeof(Element)};
    t_stride_bytes = time.stride(step_bytes);
    repeat<kItems>(
        [&](int j) { t_offset_bytes[j] = offset_bytes[j] + time.at(0) * step_bytes; });
    begin_masks(a, time, static_cast<int>(tile_steps.of(a)));
  }

  RNNC_MEMBER void collect(Words& words, const PerItem<States>& states, int lane) const {
    repeat<Cell::kSources>([&](int source) {
      real value[kItems];
      repeat<kItems>(
          [&](int j) { value[j] = exists ? states[0][j][kSourceState[source]] : real(0); });
      StatePush::collect(Element{}, words[source], value, lane);
    });
  }

  // What rows that restart after this step begin from.
  RNNC_MEMBER void read_resets(const char* stage) {
    if constexpr (kResetsAhead) {
      repeat<kItems>([&](int j) {
        const int offset = InputCopy::kBytes + copied_offset[j];
        masks.read_reset(0, j, [&](int s) { return ResetCopy::read(stage, s, offset); });
      });
    }
  }
  // The gates without the product.
  RNNC_MEMBER void start(PerItem<Gates>& gate, const char* stage) const {
    repeat<kItems>([&](int j) {
      start_gates(gate[0][j], bias[0], InputCopy::read(stage, input_offset[j]));
      unweighted.set(gate[0][j], 0, j);
      add_diagonal(gate[0][j], diagonal[0], state[0][j]);
    });
  }

  // Calls body(valid, at) with what the functions that store take.
  template <typename Body>
  RNNC_MEMBER void at_step(const Body& body) const {
    body([&](int, int j) { return j < valid_items; },
         [&](Element* tensor, int n, int, int j) {
           return element_at(tensor, t_offset_bytes[j] * n);
         });
  }
  // The same for a tensor of states, [B, N, D].
  template <typename Body>
  RNNC_MEMBER void at_rows(const Body& body) const {
    body([&](int, int j) { return j < valid_items; },
         [&](Element* tensor, int, int, int j) { return element_at(tensor, offset_bytes[j]); });
  }
  RNNC_MEMBER void store_step(const ForwardArguments& a) {
    at_step([&](const auto& valid, const auto& at) { store(a, valid, at); });
    repeat<kItems>([&](int j) { t_offset_bytes[j] += t_stride_bytes; });
  }
  // Stores zeros for the steps that no row of the tile runs.
  RNNC_MEMBER void store_zeros(const ForwardArguments& a, int64 steps) {
    masks.clear();
    const int64 step_bytes = a.batch * a.heads * Plan::kHeadDim * int64{sizeof(Element)};
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) {
      repeat<kItems>([&](int j) { t_offset_bytes[j] = offset_bytes[j] + t * step_bytes; });
      at_step([&](const auto& valid, const auto& at) { store_states(a, valid, at); });
    }
  }
};
using ItemGates = Items::PerItem<Gates>;

// Copies wx of later steps: a step is shorter than a round trip to memory.
struct Inputs {
  InputCopy::Pieces pieces;
  InputCopy copy;
  ResetCopy reset;
  TimeOrder time;
  TileSteps tile;
  char* stages;  // in shared memory

  RNNC_MEMBER void start(const ForwardArguments& a, u32 shared_begin, int64 head, int first_unit,
                         int64 first_row, int warp, int lane, const TileSteps& tile_steps,
                         const Order& order) {
    pieces.prepare(a, lane, first_unit, first_row, kColumnStep);
    tile = tile_steps;
    time = TimeOrder(tile.of(a), order);
    const Element* const before = a.wx + time.at(0) * a.wx_time - time.stride(a.wx_time);
    copy.start(pieces, before + head * Plan::kHeadDim * Cell::kInputGates, a.wx_row);
    stages = shared_pointer(pin(shared_begin + kInputsOffset + warp * kWarpStageBytes));
    reset.start(a, time, 1, lane, head, first_unit, first_row, kColumnStep);
  }
  RNNC_MEMBER const char* stage(int stage_idx) const { return stages + stage_idx * kStageBytes; }
  RNNC_MEMBER void prefetch(const ForwardArguments& a, int t, int stage_idx,
                            Handover<false>& handover, UnweightedCopy& unweighted) {
    if (t < static_cast<int>(tile.of(a))) {
      handover.wait(a, t);
      copy.advance(time.stride(a.wx_time));
      copy.issue(pieces, pieces.in(shared_address(stages) + stage_idx * kStageBytes));
      unweighted.issue(a, time, stage_idx);
      if (t + 1 < static_cast<int>(tile.of(a))) {
        reset.issue(stages + stage_idx * kStageBytes + InputCopy::kBytes);
      }
    }
    cp_async_commit();
  }
};

// Starts the accumulators from the gates without the product, once among the warps that share K.
RNNC_INLINE void seed(Product& product, const ItemGates& gate, int split) {
  Tiles::for_pairs([&](auto pair, auto, auto tile, auto half) {
    if constexpr (kSeeded && first_of_gate(pair)) {
      repeat<2>([&](int j) {
        const float value = gate[0][j % kItems][kPairGate[pair]];
        product[tile].part[0][2 * half + j] = launder(kItems == 2 || split == j ? value : 0.0f);
      });
    }
  });
}
RNNC_INLINE void finish_gates(ItemGates& gate, const Totals& total) {
  Tiles::for_pairs([&](auto pair, auto, auto tile, auto half) {
    repeat<kItems>([&](int j) {
      const float own = total[tile][half][j];
      real& sum = gate[0][j][kPairGate[pair]];
      sum = kSeeded && first_of_gate(pair) ? own : sum + own;
    });
  });
}

}  // namespace rnnc::cluster_forward
