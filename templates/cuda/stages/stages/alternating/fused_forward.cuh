// The forward kernels of an alternating plan for a cell with stages, which multiply themselves.
//
// Each launch multiplies what its first stage needs. The sums of gates that later launches need too
// lie behind the values of the workspace.
#pragma once

#include "lib/stages/alternating/forward.cuh"
#include "lib/stages/alternating/fused_product.cuh"

namespace rnnc::alternating {

// A strip of R is a block's 8 units of a pair.
struct PairStrips {
  RNNC_CONSTEXPR int of(int source) { return kSourcePairs[source]; }
};

// Runs some stages of a step, up to the next product.
template <int first_stage, int end_stage>
RNNC_INLINE void staged_forward_step(const StagedWorkspace& workspace, int64 step_idx) {
  using Product = StageProduct<first_stage, PairStrips, false>;
  __shared__ __align__(16) float partials[Product::Product::kPartials];
  __shared__ u64 words[sizeof(StagedForwardArguments) / 8];
  griddepcontrol_launch_dependents();
  const FusedTile tile(workspace);
  const ItemIndex item = tile.item(workspace);
  const int64 t = ld_relaxed_gpu(workspace.first_step) + step_idx;
  Product product;
  product.begin(workspace, tile, t);
  const auto& a = shared_arguments<StagedForwardArguments>(workspace, words);
  ForwardInputs inputs;
  if (item.valid && t < a.steps) inputs.load(a, workspace, item, t);
  griddepcontrol_wait();
  if (t >= a.steps) return;
  product.run(workspace, partials);
  if (!item.valid) return;
  Gates sum = {};
  for_source_pairs([&](int source, int i) {
    if (kSourceStage[source] != first_stage) return;
    const int strip = Product::first_strip(source) + i;
    sum[kPairGate[kSourceFirstPair[source] + i]] +=
        Product::Product::total(partials, strip, tile.item_idx);
  });
  repeat<Cell::kGates>([&](int g) {
    inputs.gate[g] += sum[g];
    const bool is_needed = end_stage < Cell::kStages && is_summed(g, first_stage, first_stage + 1);
    if (is_needed) *value_at(workspace, item, kFirstSum + g) = sum[g];
  });
  unroll<end_stage, first_stage>([&](auto index) {
    constexpr int stage = decltype(index)::value;
    forward_stage<stage, first_stage>(a, workspace, item, t, inputs);
  });
}

}  // namespace rnnc::alternating
