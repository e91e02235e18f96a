// The sums over time of a backward, stage by stage.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// Adds the gradients that a stage computes of biases, params and diagonal weights; `before` are the
// states before the step.
template <int stage>
RNNC_INLINE void add_stage_to_sums(GradientSums& sums, const Gates& d_gate, const Params& d_param,
                                   const States& before, const ReadValues& saved) {
  constexpr int first_diagonal = Cell::kBiasGates + Cell::kParams;
  repeat<Cell::kBiasGates>([&](int i) {
    if (kGateStage[kBias[i]] == stage) sums[i] += d_gate[kBias[i]];
  });
  repeat<Cell::kParams>([&](int i) {
    if (kParamStage[i] == stage) sums[Cell::kBiasGates + i] += d_param[i];
  });
  repeat<Cell::kStateDiagonals>([&](int n) {
    const int i = kDiagonalOrder[n], gate = kDiagonalGate[i];
    if (kGateStage[gate] == stage) {
      sums[first_diagonal + i] += d_gate[gate] * before[kDiagonalSource[i]];
    }
  });
  unroll<Cell::kStageWeights>([&](auto index) {
    constexpr StageWeight weight = kStageWeights[decltype(index)::value];
    if constexpr (kGateStage[weight.gate] == stage) {
      sums[first_diagonal + weight.weight] += d_gate[weight.gate] * saved[weight.saved];
    }
  });
}

}  // namespace rnnc
