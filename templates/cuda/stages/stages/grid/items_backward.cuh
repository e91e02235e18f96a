// The backward of a grid plan for cells with stages: what a thread holds of its items between
// stages, and what it loads of them ahead of a step.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// Of cells without stages: the header below names it, and nothing here calls it.
__device__ void apply_pointwise_backward(const ReadValues& saved, const States& before,
                                         const States& after, const Params& param,
                                         States& d_states, Gates& d_gates, Params& d_params);

}  // namespace rnnc

#include "lib/kernels/grid_backward.cuh"
#include "lib/stages/grid/product.cuh"
#include "lib/stages/grid/statistics.cuh"
#include "lib/stages/sums.cuh"

namespace rnnc::grid_backward {

using StagedProduct = StagedSplitK<KRange>;
using Statistics = GridStatistics<Plan>;
static_assert(kTileBytes + Statistics::kTileBytes == Plan::kPlannedKTiles * kTileKTileBytes,
              "the plan counted another exchange");

// What is known of an item within a step.
struct ItemStages {
  Values value;
  Gates d_gate;
  States last, before;  // states after the step before, and those that this step began from
  real sum[at_least_one(Cell::kStageSums)];
  Numbers number;       // that the forward saved

  // Reads the states of a step, and adds the gradients that arrive from outside.
  RNNC_MEMBER void begin(Item& it, const BackwardArguments& a) {
    repeat<Cell::kStates>([&](int s) {
      last[s] = kReads[s] ? it.before[s][0] : real(0);
      if (a.d_states[s]) it.d_state[s] += it.d_output[s][0];
      if (kResetsAhead && kReads[s]) it.masks.set_reset(0, 0, s, it.reset[s]);
    });
    it.masks.select_before(0, 0, before, last);
    repeat<Cell::kValues>([&](int k) { value[k] = 0; });
  }
  // One stage; adds its part to the sums over time.
  template <int stage>
  RNNC_MEMBER void run_stage(Item& it) {
    ReadValues saved;
    Params d_param;
    unpack_saved(saved, it.saved);
    it.unweighted.set_read(saved, 0, 0);
    for_weights_of<stage>([&](const StageWeight& weight) {
      value[weight.value] = it.diagonal[weight.weight] * d_gate[weight.gate];
    });
    static_assert(!kLooksAhead, "nothing of a stage is computed ahead");
    apply_stage_backward<stage>(saved, number, before, it.after, it.param, Ahead{}, sum, value,
                                it.d_state, d_gate, d_param);
    // Rows and units that do not exist add nothing, whatever the equations give for zeros.
    if (it.valid && it.masks.runs(0)) {
      add_stage_to_sums<stage>(it.sum, d_gate, d_param, before, saved);
    }
  }
  // Loads the numbers of step t, if there is one.
  RNNC_MEMBER void load_numbers(const Item& it, const StagedBackwardArguments& a,
                                const Place& place, int t) {
    if (t < 0) return;
    const int64 step = a.batch * a.heads * Cell::kSavedStatistics;
    const real* const from = a.statistics + place.time(a).at(t) * step +
                             (it.row * a.heads + place.head) * Cell::kSavedStatistics;
    repeat<Cell::kSavedStatistics>([&](int k) { number[k] = __ldg(from + k); });
    if (Cell::kSavedStatistics && t >= kL2Steps) {
      prefetch_l2(from - kL2Steps * place.time(a).stride(step));
    }
  }
};

// The gates whose gradients a stage computes, among those of dense pairs.
RNNC_CONSTEXPR int gradients_of(int stage) {
  int count = 0;
  for (int pair = 0; pair < Cell::kDensePairs; ++pair) {
    count += kGateStage[kPairGate[pair]] == stage;
  }
  return count;
}
// The pair of the i-th of them.
RNNC_CONSTEXPR int pair_of_gradient(int stage, int i) {
  int pair = 0;
  for (; pair < Cell::kDensePairs; ++pair) {
    if (kGateStage[kPairGate[pair]] == stage && i-- == 0) break;
  }
  return pair;
}

// Publishes the gradients of an item's gates that a stage has computed, in twos: neighbouring lanes
// exchange halves of words. All lanes of a warp must call this.
template <int stage>
RNNC_INLINE void publish_gradients(const Item& it, const Gates& d_gate, char* to, int64 ahead) {
  constexpr int count = gradients_of(stage);
  unroll<ceil_div(count, 2)>([&](auto index) {
    constexpr int n = minimum(2, count - 2 * index);
    constexpr int first = pair_of_gradient(stage, 2 * index);
    constexpr int second = pair_of_gradient(stage, 2 * index + n - 1);
    real values[n];
    values[0] = it.valid ? d_gate[kPairGate[first]] : real(0);
    if (n > 1) values[n - 1] = it.valid ? d_gate[kPairGate[second]] : real(0);
    const auto address = [&](int i) {
      return to + it.exchange_offset + (i ? second : first) * Sizes::kDimKTiles * kTileKTileBytes;
    };
    publish_values(values, threadIdx.x & 1, it.in_bounds, address);
    if (ahead && it.in_bounds) repeat<n>([&](int i) { prefetch_l2(address(i) + ahead); });
  });
}

}  // namespace rnnc::grid_backward
