// The forward of a grid plan for cells with stages: what a thread holds of its items between
// stages, and the partials of each stage's product.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// Of cells without stages: the header below names it, and nothing here calls it.
template <typename Sigmoid>
__device__ void apply_pointwise_forward(const Gates& gate, const States& state, const Params& param,
                                        States& next, Saved& saved, Sigmoid& sigmoid);

}  // namespace rnnc

#include "lib/kernels/grid_forward.cuh"
#include "lib/stages/grid/product.cuh"
#include "lib/stages/grid/statistics.cuh"
#include "lib/stages/number_store.cuh"

namespace rnnc::grid_forward {

using StagedProduct = StagedSplitK<KRange>;
using Statistics = GridStatistics<Plan>;
static_assert(kTileBytes + Statistics::kTileBytes == Plan::kPlannedKTiles * kTileKTileBytes,
              "the plan counted another exchange");

// What is known of an item within a step.
struct ItemStages {
  Gates gate;  // pre-activations, as far as stages have added to them
  Values value;
  Numbers number[1];
  NumberStore<1> number_store;
};

// The partials of a stage's product: as those of a cell without stages, of the stage's pairs alone.
template <int stage>
struct StagePartials {
  static constexpr int kPairs = pairs_of(stage);
  static constexpr int kFirstPair = kSourceFirstPair[first_source_of(stage)];
  static constexpr int kWidth = kPairs <= 2 ? kPairs : round_up(kPairs, 4);
  static constexpr int kPitch = (Plan::kUnits + 1) * kWidth;
  static constexpr int kWarp = Sizes::kPhaseRows * kPitch;
  static_assert(kWarp <= kWarpPartials, "the buffers are for all pairs at once");
  using Access = Vec<float, kWidth>;

  static RNNC_MEMBER void store(float* partials, const StagedProduct::Sums<stage>& sum, int warp,
                                int lane) {
    unroll<Plan::kUnits / 8 * Sizes::kPhaseTiles * 2>([&](auto index) {
      constexpr int j = index % 2, n = index / 2 % Sizes::kPhaseTiles;
      constexpr int unit_group = index / 2 / Sizes::kPhaseTiles;
      float values[kWidth] = {};
      for_sources_of<stage>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        constexpr int first_tile =
            Product::first_tile(source) - StagedProduct::first_tile_of(stage);
        unroll<kSourcePairs[source]>([&](auto pair) {
          constexpr int half = unit_group * kSourcePairs[source] + pair;
          values[kSourceFirstPair[source] - kFirstPair + pair] =
              sum[first_tile + half / 2][n].total(half % 2 * 2 + j);
        });
      });
      const int row = n * kTileRows + 2 * (lane & 3) + j, unit = unit_group * 8 + (lane >> 2);
      Access access;
      access.set(values);
      write_aligned(access, partials + warp * kWarp + row * kPitch + unit * kWidth);
    });
  }
  // Adds those of all warps to the gates of an item.
  static RNNC_MEMBER void add(Gates& gate, const Item& it, const float* partials) {
    float total[kWidth] = {};
    repeat<Plan::kWarps>([&](int w) {
      Access access;
      access.read(partials + w * kWarp + it.phase_row * kPitch + it.unit_idx * kWidth);
      repeat<kWidth>([&](int i) { total[i] += access[i]; });
    });
    repeat<kPairs>([&](int i) { gate[kPairGate[kFirstPair + i]] += total[i]; });
  }
};

}  // namespace rnnc::grid_forward
