// What the forward kernels of an alternating plan do for an item of a cell with stages.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// NOTE: the header below also has the step of cells of one stage, which calls this.
template <typename... Values>
RNNC_INLINE void apply_pointwise_forward(Values&...) {}

}  // namespace rnnc

#include "lib/kernels/alternating/forward.cuh"
#include "lib/stages/alternating/statistics.cuh"

namespace rnnc::alternating {

// Where the sums of products of gates lie among an item's values, if kFused.
constexpr int kFirstSum = Cell::kValues;

// Whether a gate gets a product before some stage, among those from one on.
RNNC_CONSTEXPR bool is_summed(int gate, int from_stage, int end_stage) {
  for (int source = 0; source < Cell::kSources; ++source) {
    if (kSourceStage[source] < from_stage || kSourceStage[source] >= end_stage) continue;
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      if (kPairGate[kSourceFirstPair[source] + i] == gate) return true;
    }
  }
  return false;
}

// Adds the products that are known before a stage of a launch that begins with `first_stage`. If
// kFused, `gate` already has those of the launch itself.
template <int stage, int first_stage>
RNNC_INLINE void add_known_products(Gates& gate, const StagedWorkspace& workspace,
                                    const ItemIndex& item) {
  if constexpr (Plan::kFused) {
    repeat<Cell::kGates>([&](int g) {
      if (is_summed(g, 0, first_stage)) gate[g] += *value_at(workspace, item, kFirstSum + g);
    });
  } else {
    const int64 column = (int64{item.n} * workspace.batch + item.b) * workspace.dim + item.d;
    for_products_before<stage>([&](int source, int pair, int i) {
      gate[kPairGate[pair]] += workspace.products[source][column * kSourcePairs[source] + i];
    });
  }
}

// Adds products with a weight per unit: of states, and of called gates as far as they are known.
template <int stage>
RNNC_INLINE void add_unit_products(Gates& gate, const Diagonal& diagonal, const States& state,
                                   const Values& value) {
  repeat<Cell::kStateDiagonals>([&](int n) {
    const int weight = kDiagonalOrder[n];
    gate[kDiagonalGate[weight]] += diagonal[weight] * state[kDiagonalSource[weight]];
  });
  repeat<Cell::kStageWeights>([&](int i) {
    const StageWeight& called = kStageWeights[i];
    if (called.stage > stage) return;
    gate[called.gate] += diagonal[called.weight] * value[called.value];
  });
}

// Rounds what a stage left for a product: the factors of called gates.
template <int stage>
RNNC_INLINE void store_factors(const Values& value, const StagedWorkspace& workspace,
                               const ItemIndex& item, int64 t) {
  repeat<Cell::kSources>([&](int source) {
    if (source < Cell::kStateSources || kValueStage[kSourceValue[source]] != stage) return;
    workspace.factors[source][factor_offset(workspace, item, t, 1, 0)] =
        to_element<Element>(value[kSourceValue[source]]);
  });
}

// Everything that a step leaves: states, results, and what is saved for the backward.
RNNC_INLINE void finish_step(const StagedForwardArguments& a, const StagedWorkspace& workspace,
                             const ItemIndex& item, int64 t, ForwardMasks& masks,
                             const States& before, States& next, Saved& saved,
                             const Numbers& statistic) {
  masks.select(next, before);
  const int64 time = TimeOrder(a.steps, Order(item.n, workspace.heads)).at(t);
  const int64 place = time * workspace.size() + item.row;
  const bool is_last = t == a.steps - 1;
  repeat<Cell::kStates>([&](int s) {
    const Element stored = to_element<Element>(masks.results(next)[s]);
    workspace.states[s][item.row] = next[s];
    if (a.states[s]) a.states[s][place] = stored;
    if (is_last) a.last[s][item.row] = to_element<Element>(next[s]);
  });
  repeat<Cell::kStateSources>([&](int source) {
    workspace.factors[source][factor_offset(workspace, item, t + 1, 1, 0)] =
        to_element<Element>(next[kSourceState[source]]);
  });
  if (Cell::kSaved && a.saved) {
    // Of a row that does not run the step, zeros: what is saved is a factor of a gradient.
    const bool holds = kMasked && masks.now == How::kHold;
    repeat<Cell::kSaved>([&](int i) { saved[i] = holds ? real(0) : saved[i]; });
    pack_saved(saved).store(a.saved + place * Cell::kSaved);
  }
  if (Cell::kSavedStatistics && a.statistics && item.d == 0) {
    const int64 head = time * workspace.batch * workspace.heads + head_of(workspace, item);
    repeat<Cell::kSavedStatistics>([&](int i) {
      a.statistics[head * Cell::kSavedStatistics + i] = statistic[kSavedStatistic[i]];
    });
  }
}

// Runs a stage of an item, in a launch that begins with `first_stage`.
template <int stage, int first_stage>
RNNC_INLINE void forward_stage(const StagedForwardArguments& a, const StagedWorkspace& workspace,
                               const ItemIndex& item, int64 t, ForwardInputs& inputs) {
  States state, next;
  Gates gate;
  Values value;
  Numbers statistic;
  Saved saved;
  assign(gate, inputs.gate);
  repeat<Cell::kStates>([&](int s) { state[s] = workspace.states[s][item.row]; });
  load_values<stage>(value, workspace, item);
  const real* const numbers = workspace.numbers + head_of(workspace, item) * Cell::kStatistics;
  repeat<Cell::kStatistics>([&](int i) { statistic[i] = numbers[i]; });
  add_known_products<stage, first_stage>(gate, workspace, item);
  add_unit_products<stage>(gate, inputs.diagonal, state, value);
  with_sigmoid<false>([&](auto& sigmoid) {
    apply_stage_forward<stage>(gate, state, inputs.param, statistic, value, next, saved, sigmoid);
  });
  store_values<stage>(value, workspace, item);
  store_factors<stage>(value, workspace, item, t);
  if constexpr (stage == Cell::kStages - 1) {
    finish_step(a, workspace, item, t, inputs.masks, state, next, saved, statistic);
  }
}

RNNC_INLINE void staged_forward_begin(const StagedForwardArguments& a,
                                      const StagedWorkspace& workspace) {
  begin(a, workspace);
  const ItemIndex item(workspace);
  if (!item.valid) return;
  const TimeOrder time(a.steps, Order(item.n, workspace.heads));
  ForwardMasks masks;
  masks.load(a, time, 0, item.b, item.unit);
  States first;
  repeat<Cell::kStates>([&](int s) { first[s] = to_real(a.initial_states[s][item.row]); });
  if (a.steps == 0) {
    repeat<Cell::kStates>([&](int s) { a.last[s][item.row] = a.initial_states[s][item.row]; });
  }
  masks.begin_states(a, time, first);
  repeat<Cell::kStates>([&](int s) { workspace.states[s][item.row] = first[s]; });
  repeat<Cell::kStateSources>([&](int source) {
    const Element factor = to_element<Element>(first[kSourceState[source]]);
    workspace.factors[source][factor_offset(workspace, item, 0, 1, 0)] = factor;
  });
}

}  // namespace rnnc::alternating
