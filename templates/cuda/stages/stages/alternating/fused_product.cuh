// The products of a launch of a fused step with stages: those that its first stage needs.
#pragma once

#include "lib/kernels/alternating/fused_tile.cuh"
#include "lib/stages/alternating/workspace.cuh"

namespace rnnc::alternating {

// body(source) for each source whose product is needed before a stage; `source` is a constant.
template <int stage, typename Body>
RNNC_INLINE void for_sources_of(const Body& body) {
  unroll<Cell::kSources>([&](auto source) {
    if constexpr (kSourceStage[decltype(source)::value] == stage) body(source);
  });
}

// Multiplies the factors of these sources. `Strips` says of each source how many strips of R a
// block has; `kFactors` whether a source has a factor for each of its pairs.
template <int stage, typename Strips, bool kFactors>
struct StageProduct {
  struct KRange {
    RNNC_CONSTEXPR int strips(int source) {
      return kSourceStage[source] == stage ? Strips::of(source) : 0;
    }
  };
  using Product = FusedProduct<KRange>;
  Product product;

  RNNC_CONSTEXPR int factors(int source) { return kFactors ? kSourcePairs[source] : 1; }
  RNNC_CONSTEXPR int first_strip(int source) { return Product::first_strip(source); }

  // Before griddepcontrol_wait: R is the same in all steps.
  RNNC_MEMBER void begin(const StagedWorkspace& workspace, const FusedTile& tile, int64 step) {
    const int pitch = factor_pitch(workspace.dim) / kKTile;
    for_sources_of<stage>([&](auto source) {
      constexpr int s = decltype(source)::value;
      const int k_tiles = pitch * factors(s);
      const int64 place = int64{blockIdx.x} * k_tiles * Strips::of(s) * (kStripBytes / 2);
      product.template prefetch_weights<s>(workspace.weights[s] + place, 0, k_tiles);
      product.template set_rows<s>(
          workspace.factors[s] + tile.factors(workspace, step, factors(s)), 0);
    });
  }
  // Leaves the partials of all warps, behind a barrier.
  RNNC_MEMBER void run(const StagedWorkspace& workspace, float* partials) {
    const int64 bytes = int64{kTileBytes} * (factor_pitch(workspace.dim) / kKTile);
    for_sources_of<stage>([&](auto source) {
      constexpr int s = decltype(source)::value;
      product.template multiply<s>(bytes * factors(s));
    });
    product.store_partials(partials);
    __syncthreads();
  }
};

}  // namespace rnnc::alternating
