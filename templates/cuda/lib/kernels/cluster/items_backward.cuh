// The items of a thread in the backward of a cluster plan.
//
// If the backward pointwise map is linear in the gradients of the states after a step
// (Plan::kLinear), a thread computes its results without the peers' partials, and their derivative
// with respect to them; when the partials arrive, one multiply-add finishes each value.
#pragma once

#include "lib/cell/items_backward.cuh"
#include "lib/cell/mask_parts_backward.cuh"
#include "lib/exchange/partial_push.cuh"
#include "lib/kernels/cluster/copies_backward.cuh"

namespace rnnc::cluster_backward {

// The results of the backward pointwise map for one item.
struct Gradients {
  Gates gate;
  States state;
  Params param;

  // Adds to linear results their derivative `one` with respect to the gradient of a state, times
  // what the peers sent for that state.
  RNNC_MEMBER void add_received(const Gradients& one, real received, int to) {
    repeat<Cell::kGates>([&](int g) {
      if (kReachesGate[to][g]) gate[g] += one.gate[g] * received;
    });
    repeat<Cell::kStates>([&](int s) {
      if (kReachesState[to][s]) state[s] += one.state[s] * received;
    });
    repeat<Cell::kParams>([&](int p) {
      if (kReachesParam[to][p]) param[p] += one.param[p] * received;
    });
  }
};

// If there is no such unit or row, the thread computes another item's values and stores none.
struct Items : BackwardItems<kItems, 1, BackwardParts<kItems>> {
  bool active[kItems], valid[kItems];  // the units exist; and the row does too
  // An address is a uniform pointer and one of these offsets, in bytes: into [B, N, D], and into
  // [T, B, N, D] at the step whose results are stored next.
  int64 offset_bytes[kItems], t_offset_bytes[kItems];
  int unit[kItems];  // within the block
  int saved_offset[kItems], state_offset[kItems];
  // Of the current step: the states after the step before it and those that it begins from, and
  // results; derivatives of linear results.
  States last[kItems], before[kItems];
  Gradients found[kItems], derivative[kItems][at_least_one(Cell::kSources)];

  template <class Copies>
  RNNC_MEMBER void load(const BackwardArguments& a, const Position& at, Copies& copies) {
    const bool row_valid = at.first_row + at.column < a.batch;
    const int64 place = row_valid ? at.first_row + at.column : 0, row = row_at(a, place);
    masks.place_row(0, row, place);
    unweighted.place_row(0, row);
    repeat<kItems>([&](int item) {
      const int group = item * Plan::kWarps + at.warp;
      active[item] = kItemGroups % Plan::kWarps == 0 || group < kItemGroups;
      unit[item] = group * kItemUnits + at.item_unit;
      const bool exists = active[item] && at.block_unit + unit[item] < Plan::kHeadDim;
      valid[item] = exists && row_valid;
      const int64 real_unit = at.head * Plan::kHeadDim + (exists ? at.block_unit + unit[item] : 0);
      offset_bytes[item] = launder((row * at.plane + real_unit) * int64{sizeof(Element)});
      t_offset_bytes[item] =
          offset_bytes[item] +
          at.time(a).at(at.steps - 1) * at.step_size * int64{sizeof(Element)};
      saved_offset[item] = launder(SavedCopy::offset(at.column, exists ? at.item_unit : 0));
      state_offset[item] = launder(StateCopy::offset(at.column, exists ? at.item_unit : 0));
      unweighted.place_copy(item, 0, (active[item] ? group : 0) * kItemBytes + state_offset[item]);
      copies.start(a, at, item);
      load_unit_weights(param[item], diagonal[item], a, at.plane, real_unit);
      masks.place_unit(item, real_unit);
      unweighted.place_unit(item, at.head, real_unit - at.head * Plan::kHeadDim);
      load_states(item, 0, a, at.time(a), at.tile, at.step_size,
                  [&](const Element* tensor) { return element_at(tensor, offset_bytes[item]); });
    });
    masks.begin(a, at.time(a), at.steps);
  }

  // The data of an item in a stage. A warp without an item reads another item's data.
  RNNC_MEMBER char* stage(int stage_idx, int item, int warp) const {
    const int group = active[item] ? item * Plan::kWarps + warp : 0;
    return shared + kReadsOffset + stage_idx * kStageBytes + group * kItemBytes;
  }

  // Applies the backward map to an item's data in `stage`. A map that is not linear gets the sums
  // that the peers sent.
  RNNC_MEMBER void apply_map(const BackwardArguments& a, int item, const char* stage,
                             const Received& received) {
    ReadValues saved;
    unpack_saved(saved, SavedCopy::read(stage, saved_offset[item]));
    unweighted.set_read(saved, item, 0);
    unroll<Cell::kStates>([&](auto index) {
      constexpr int s = decltype(index)::value, before_at = before_offset(s),
                    d_at = d_after_offset(s);
      if constexpr (kResetsAhead && kReads[s]) {
        constexpr int reset_at = reset_offset(s);
        const real value = StateCopy::read(stage + reset_at, state_offset[item])[0];
        masks.set_reset(item, 0, s, launder(value));
      }
      last[item][s] =
          kReads[s] ? StateCopy::read(stage + before_at, state_offset[item])[0] : real(0);
      found[item].state[s] = masks.carried(0, d_state[item][0][s]);
      if (a.d_states[s]) {
        found[item].state[s] += StateCopy::read(stage + d_at, state_offset[item])[0];
      }
    });
    if constexpr (!Plan::kLinear) {
      repeat<Cell::kSources>([&](int source) {
        found[item].state[kSourceState[source]] += masks.arrived(0, received[item][source]);
      });
    }
    masks.select_before(item, 0, before[item], last[item]);
    apply_pointwise_backward(saved, before[item], after[item][0], param[item], found[item].state,
                             found[item].gate, found[item].param);
    repeat<Plan::kLinear ? Cell::kSources : 0>([&](int source) {
      Gradients& one = derivative[item][source];
      repeat<Cell::kStates>([&](int s) { one.state[s] = s == kSourceState[source] ? 1 : 0; });
      apply_pointwise_backward(saved, before[item], after[item][0], param[item], one.state,
                               one.gate, one.param);
    });
  }

  // Adds what the peers sent: to the results of a linear map, or after the last iteration.
  RNNC_MEMBER void add_received(const Received& received) {
    repeat<kItems>([&](int item) {
      if (!active[item]) return;
      repeat<Cell::kSources>([&](int source) {
        const real got = masks.arrived(0, received[item][source]);
        found[item].add_received(derivative[item][source], got, kSourceState[source]);
      });
    });
  }
  // If the gradient of the states before the step after step t, with what the peers sent, ends
  // there.
  RNNC_MEMBER void end_gradient(const BackwardArguments& a, int t, const Received& received) {
    if (!masks.ends(a)) return;
    repeat<kItems>([&](int item) {
      States total;
      assign(total, d_state[item][0]);
      repeat<Cell::kSources>(
          [&](int source) { total[kSourceState[source]] += received[item][source]; });
      masks.end_gradient(item, a, t, valid[item], total);
    });
  }
  RNNC_MEMBER void finish(const Received& received) {
    repeat<kItems>([&](int item) {
      if (!active[item]) return;
      repeat<Cell::kSources>(
          [&](int source) { d_state[item][0][kSourceState[source]] += received[item][source]; });
    });
  }

  // Publishes the gradients of the gates in the buffer of the block's product.
  RNNC_MEMBER void publish(char* buffer, int column) const {
    repeat<kItems>([&](int item) {
      unroll<Cell::kSources>([&](auto source) {
        repeat<kSourcePairs[source]>([&](int p) {
          const int k = K::first_k_tile(source) * kKTile + p * Plan::kUnits + unit[item];
          if (valid[item]) {
            *reinterpret_cast<Element*>(buffer + GradientExchange::offset(column, k)) =
                to_element<Element>(found[item].gate[kPairGate[kSourceFirstPair[source] + p]]);
          }
        });
      });
    });
  }

  // Stores the results of a step and moves on to the step before it.
  RNNC_MEMBER void store_step(const BackwardArguments& a, const Position& at) {
    repeat<kItems>([&](int item) {
      if (!active[item]) return;
      PackedGates packed(found[item].gate);
      packed.clear_unless(masks.runs(0));
      // Rows and units that do not exist add nothing, whatever the equations give for zeros.
      if (valid[item]) {
        packed.store(element_at(a.d_wx, t_offset_bytes[item] * Cell::kInputGates),
                     element_at(a.d_gates_no_input, t_offset_bytes[item] * kGatesNoInput));
        if (masks.runs(0)) {
          add_to_sums(sums[item], found[item].gate, found[item].param, before[item]);
        }
      }
      t_offset_bytes[item] -= at.time(a).stride(at.step_size) * int64{sizeof(Element)};
      assign(d_state[item][0], found[item].state);
      assign(after[item][0], last[item]);
      add_diagonal_gradient(d_state[item][0], diagonal[item], found[item].gate);
    });
  }
  RNNC_MEMBER void store_sums_at(const BackwardArguments& a, const Position& at, int64 t) {
    // Eight lanes hold the columns of one unit.
    store_sums<13>([&](int item, int k, real total) {
      if (at.column == 0 && active[item] && at.block_unit + unit[item] < Plan::kHeadDim) {
        const int64 part = (a.first_tile + blockIdx.z) * Cell::kSums + k;
        const int64 unit_offset = at.head * Plan::kHeadDim + at.block_unit + unit[item];
        store_part_sum(a.sums + part * at.plane + unit_offset, total, t, at.tile.of(a));
      }
    });
  }
  // Stores zeros for the steps that no row of the tile runs.
  RNNC_MEMBER void store_zeros(const BackwardArguments& a, const Position& at) const {
    const Gates zeros = {};
    const PackedGates packed(zeros);
#pragma unroll 1
    for (int64 t = at.steps; t < a.steps; ++t) {
      repeat<kItems>([&](int item) {
        if (!valid[item]) return;
        const int64 offset = offset_bytes[item] + t * at.step_size * int64{sizeof(Element)};
        packed.store(element_at(a.d_wx, offset * Cell::kInputGates),
                     element_at(a.d_gates_no_input, offset * kGatesNoInput));
      });
    }
  }
};

}  // namespace rnnc::cluster_backward
