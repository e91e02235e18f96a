// What the backward kernels of an alternating plan do for an item of a cell with stages.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// NOTE: the header below also has the step of cells of one stage, which calls this.
template <typename... Values>
RNNC_INLINE void apply_pointwise_backward(Values&...) {}

}  // namespace rnnc

#include "lib/kernels/alternating/backward.cuh"
#include "lib/stages/alternating/statistics.cuh"

namespace rnnc::alternating {

using StageSums = real[at_least_one(Cell::kStageSums)];
// Where gradients of gates and params lie among an item's values, until the last stage stores them.
constexpr int kFirstGate = Cell::kValues, kFirstParam = kFirstGate + Cell::kGates;
constexpr int kLastStage = Cell::kStages - 1;

// The products of a launch, one of each source: added over its pairs.
using Returned = real[at_least_one(Cell::kSources)];

// The products of the sources that are needed before a stage.
template <int stage>
RNNC_INLINE void load_products(Returned& product, const StagedWorkspace& workspace,
                               const ItemIndex& item) {
  repeat<Cell::kSources>([&](int source) { product[source] = 0; });
  for_source_pairs([&](int source, int i) {
    if (kSourceStage[source] != stage) return;
    const int64 place = factor_offset(workspace, item, 0, kSourcePairs[source], i);
    product[source] += workspace.products[source][place];
  });
}

// Adds the products of the step after to the gradients of the states that matrices read.
RNNC_INLINE void add_state_products(States& d_state, const Returned& product) {
  repeat<Cell::kStateSources>(
      [&](int source) { d_state[kSourceState[source]] += product[source]; });
}

// The gradients of the states after a step, as later steps give them: the first stage completes
// them, and leaves them for the others.
template <int stage>
RNNC_INLINE void load_carried(States& carried, const StagedBackwardArguments& a,
                              const StagedWorkspace& workspace, const ItemIndex& item,
                              const BackwardMasks& masks, const Returned& product) {
  repeat<Cell::kStates>([&](int s) { carried[s] = workspace.states[s][item.row]; });
  if constexpr (stage == 0) {
    add_state_products(carried, product);
    if (masks.has_restarted()) masks.end_gradient(a, carried);
    repeat<Cell::kStates>([&](int s) { workspace.states[s][item.row] = carried[s]; });
  }
}

// Gradients of gates and params that stages before this one computed; those of this one are kept.
template <int stage>
RNNC_INLINE void load_gradients(Gates& d_gate, Params& d_param, const StagedWorkspace& workspace,
                                const ItemIndex& item) {
  repeat<Cell::kGates>([&](int g) {
    if (kGateStage[g] < stage) d_gate[g] = *value_at(workspace, item, kFirstGate + g);
  });
  repeat<Cell::kParams>([&](int p) {
    if (kParamStage[p] < stage) d_param[p] = *value_at(workspace, item, kFirstParam + p);
  });
}
template <int stage>
RNNC_INLINE void keep_gradients(const Gates& d_gate, const Params& d_param,
                                const StagedWorkspace& workspace, const ItemIndex& item) {
  repeat<Cell::kGates>([&](int g) {
    if (kGateStage[g] == stage) *value_at(workspace, item, kFirstGate + g) = d_gate[g];
  });
  repeat<Cell::kParams>([&](int p) {
    if (kParamStage[p] == stage) *value_at(workspace, item, kFirstParam + p) = d_param[p];
  });
}

// Adds to the gradients of what called gates multiply the products that are known before a stage of
// a launch that begins with `first_stage`. Those of the launch itself are left for later ones.
template <int stage, int first_stage>
RNNC_INLINE void add_returned(Values& value, const StagedWorkspace& workspace,
                              const ItemIndex& item, const Diagonal& diagonal,
                              const Gates& d_gate, const Returned& product) {
  repeat<Cell::kSources>([&](int source) {
    if (source < Cell::kStateSources || kSourceStage[source] > stage) return;
    real* const left = value_at(workspace, item, kSourceValue[source]);
    const bool is_own = kSourceStage[source] == first_stage;
    value[kSourceValue[source]] = is_own ? product[source] : *left;
    if (is_own && stage == first_stage) *left = product[source];
  });
  repeat<Cell::kStageWeights>([&](int i) {
    const StageWeight& called = kStageWeights[i];
    if (called.stage <= stage) value[called.value] += diagonal[called.weight] * d_gate[called.gate];
  });
}

// Rounds the gradients of gates that a product multiplies: of called gates, or of all others.
template <int stage>
RNNC_INLINE void store_gate_factors(const Gates& d_gate, const StagedWorkspace& workspace,
                                    const ItemIndex& item, int64 step, bool of_states) {
  for_source_pairs([&](int source, int i) {
    const int gate = kPairGate[kSourceFirstPair[source] + i];
    if (of_states != source < Cell::kStateSources) return;
    if (!of_states && kGateStage[gate] != stage) return;
    workspace.factors[source][factor_offset(workspace, item, step, kSourcePairs[source], i)] =
        to_element<Element>(d_gate[gate]);
  });
}

// What a diagonal weight multiplied: a state before the step, or a value that was saved.
RNNC_INLINE real multiplied_by(int weight, const States& before, const ReadValues& saved) {
  real found = 0;
  repeat<Cell::kStates>([&](int s) {
    if (kDiagonalSource[weight] == s) found = before[s];
  });
  repeat<Cell::kStageWeights>([&](int i) {
    if (kStageWeights[i].weight == weight) found = saved[kStageWeights[i].saved];
  });
  return found;
}

// Adds a step to the sums over time, in parts: see kPartSteps.
RNNC_INLINE void add_step_to_sums(const StagedWorkspace& workspace, const ItemIndex& item, int64 t,
                                  bool runs, const Gates& d_gate, const Params& d_param,
                                  const States& before, const ReadValues& saved) {
  GradientSums step;
  repeat<Cell::kBiasGates>([&](int i) { step[i] = d_gate[kBias[i]]; });
  repeat<Cell::kParams>([&](int p) { step[Cell::kBiasGates + p] = d_param[p]; });
  repeat<Cell::kDiagonalPairs>([&](int w) {
    step[Cell::kBiasGates + Cell::kParams + w] =
        d_gate[kDiagonalGate[w]] * multiplied_by(w, before, saved);
  });
  const int64 size = workspace.size();
  repeat<Cell::kSums>([&](int i) {
    real* const part = workspace.sums + i * size + item.row;
    const real sum = *part + (runs ? step[i] : real(0));
    if (t % kPartSteps == 0) workspace.totals[i * size + item.row] += SumOverTime(sum);
    *part = t % kPartSteps == 0 ? real(0) : sum;
  });
}

// What the last stage leaves: gradients of gates, of the states before the step, and sums.
RNNC_INLINE void finish_step(const StagedBackwardArguments& a, const StagedWorkspace& workspace,
                             const ItemIndex& item, int64 t, const BackwardInputs& inputs,
                             const ReadValues& saved, const States& carried, States& d_state,
                             Gates& d_gate, Params& d_param) {
  inputs.masks.select_gradients(d_state, d_gate, d_param, carried);
  store_gate_factors<kLastStage>(d_gate, workspace, item, a.steps - t, true);
  repeat<Cell::kStateDiagonals>([&](int n) {
    const int weight = kDiagonalOrder[n];
    d_state[kDiagonalSource[weight]] += inputs.diagonal[weight] * d_gate[kDiagonalGate[weight]];
  });
  repeat<Cell::kStates>([&](int s) { workspace.states[s][item.row] = d_state[s]; });
  const TimeOrder time(a.steps, Order(item.n, workspace.heads));
  PackedGates(d_gate).store(a, time.at(t) * workspace.size() + item.row);
  const bool runs = !inputs.masks.holds();
  add_step_to_sums(workspace, item, t, runs, d_gate, d_param, inputs.before, saved);
}

// The stage that a launch's products are needed before: those of the states come from the step after.
RNNC_CONSTEXPR int product_stage(int first_stage) {
  return first_stage == 0 ? Cell::kStages : first_stage;
}

// Runs a stage of an item, in a launch that begins with `first_stage` and whose products are given.
template <int stage, int first_stage>
RNNC_INLINE void backward_stage(const StagedBackwardArguments& a, const StagedWorkspace& workspace,
                                const ItemIndex& item, int64 t, const BackwardInputs& inputs,
                                const Returned& product) {
  ReadValues saved;
  unpack_saved(saved, inputs.saved);
  inputs.unweighted.set_read(saved, 0, 0);
  Numbers statistic;
  StageSums sum;
  const int64 head = head_of(workspace, item);
  const TimeOrder time(a.steps, Order(item.n, workspace.heads));
  const int64 saved_head = time.at(t) * workspace.batch * workspace.heads + head;
  repeat<Cell::kStatistics>(
      [&](int i) { statistic[i] = a.statistics[saved_head * Cell::kStatistics + i]; });
  repeat<Cell::kStageSums>(
      [&](int i) { sum[i] = workspace.numbers[head * Cell::kStageSums + i]; });
  States carried, d_state;
  Gates d_gate;
  Params d_param;
  Values value;
  load_carried<stage>(carried, a, workspace, item, inputs.masks, product);
  load_gradients<stage>(d_gate, d_param, workspace, item);
  load_values<stage>(value, workspace, item);
  add_returned<stage, first_stage>(value, workspace, item, inputs.diagonal, d_gate, product);
  repeat<Cell::kStates>([&](int s) { d_state[s] = carried[s] + inputs.d_state[s]; });
  static_assert(!kLooksAhead, "nothing of a stage is computed ahead");
  apply_stage_backward<stage>(saved, statistic, inputs.before, inputs.after, inputs.param, Ahead{},
                              sum, value, d_state, d_gate, d_param);
  store_values<stage>(value, workspace, item);
  if constexpr (stage < kLastStage) {
    keep_gradients<stage>(d_gate, d_param, workspace, item);
    store_gate_factors<stage>(d_gate, workspace, item, a.steps - 1 - t, false);
  } else {
    finish_step(a, workspace, item, t, inputs, saved, carried, d_state, d_gate, d_param);
  }
}

RNNC_INLINE void staged_backward_begin(const StagedBackwardArguments& a,
                                       const StagedWorkspace& workspace) {
  backward_begin(a, workspace);
  begin(a, workspace);  // writes the arguments with what only cells with stages have
}

}  // namespace rnnc::alternating
