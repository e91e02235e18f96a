// The forward of a cluster plan for cells with stages: its layout of shared memory behind that of
// all cells, what it pushes, and the items of a thread.
#pragma once

#include "lib/kernels/cluster/items_forward.cuh"
#include "lib/stages/cluster/partial_sums.cuh"
#include "lib/stages/cluster/statistics.cuh"
#include "lib/stages/items_forward.cuh"
#include "lib/stages/number_store.cuh"

namespace rnnc::cluster_forward {

// The eight units of a row are in the lanes of all four quads.
using Statistics = ClusterStatistics<Plan, kItems, 1, 28, kGroups, kWarps>;
constexpr int kSharedTilesOffset = kBarriersOffset + kExchanges * kBarrierPairBytes;
constexpr int kStatisticsOffset = kSharedTilesOffset + kSharedTilesBytes;
constexpr int kStagedBytes = kStatisticsOffset + Statistics::kBytes - kSharedBytes;
static_assert(kStagedBytes == Plan::kStagedShared, "the plan counted another size");

// Bytes that the cluster pushes to a block for a stage.
RNNC_CONSTEXPR int pushed_bytes(int stage) {
  return kPushedBytes / at_least_one(Cell::kSources) * sources_of(stage) +
         Statistics::pushed_bytes(stage);
}

// Sends what StatePush sends, in another order: neighbouring lanes send to one peer.
// NOTE: their pieces lie beside each other there, so they take fewer packets. A step of LEM 3 x 256
// took 0.995 us on an H200, and takes 0.969.
struct StagedPush : StatePush {
  int lane;  // whose piece of StatePush this lane sends

  RNNC_MEMBER void prepare(u32 shared, u32 rank, int first_unit, int split, int own) {
    const int peer = own / kRows, row = own % kRows;
    lane = kPack == 1 ? own : pin(row * kLanesPerPiece + peer);
    StatePush::prepare(shared, rank, first_unit, split, lane);
  }
  // The piece of this lane from the values of all lanes, as StatePush::collect. Four bytes per
  // element are in this order there.
  template <typename T>
  RNNC_MEMBER void collect(T, u32 (&words)[4], const real (&value)[kItems]) const {
    if constexpr (sizeof(T) == 2) {
      const u32 units = movmatrix_trans(pack(T{}, value[0], value[kItems - 1]));
      repeat<4>([&](int i) { words[i] = __shfl_sync(~0u, units, lane / 4 * 4 + i); });
    } else {
      StatePush::collect(T{}, words, value, lane);
    }
  }
  // Sends the words of what a stage multiplies to all blocks.
  template <int stage>
  RNNC_MEMBER void publish_for(const Words& words) const {
    for_sources_of<stage>([&](auto source) {
      repeat<kPeers>([&](int i) {
        if (!valid[i]) return;
        st_async_v4(to[i] + source * StateExchange::kBytes, words[source],
                    barrier[i] + exchange_of(stage) * kBarrierPairBytes);
      });
    });
  }

 private:
  static constexpr int kRows = 32 / kLanesPerPiece;  // of a warp
};

struct StagedItems : StagedForwardItems<Items, kItems> {
  // The gates without products that wait.
  RNNC_MEMBER void begin_gates(const char* stage) {
    repeat<kItems>([&](int j) {
      start_gates(gate[0][j], bias[0], InputCopy::read(stage, input_offset[j]));
      unweighted.set(gate[0][j], 0, j);
    });
    add_state_weights(gate);
  }

  // Starts the accumulators of a stage: once among the warps that have parts of a tile from its
  // gates.
  template <int stage>
  RNNC_MEMBER void start_products(StageProduct<stage>& product,
                                  const PartialSums& partials) const {
    for_sources_of<stage>([&](auto source) {
      repeat<Tiles::tiles(source)>(
          [&](int i) { product[Tiles::first_tile(source) + i].clear(); });
    });
    for_pairs_of<stage>([&](auto pair, auto tile, auto half, auto is_shared) {
      if constexpr (kSeeded && first_of_gate(pair)) {
        repeat<2>([&](int j) {
          const float start = gate[0][j % kItems][kPairGate[pair]];
          const float own = launder(kItems == 2 || partials.split == j ? start : 0.0f);
          if constexpr (decltype(is_shared)::value) {
            repeat<2>([&](int own_half) {
              product[tile].part[0][2 * own_half + j] = own_half == int{partials.odd} ? own : 0.0f;
            });
          } else {
            product[tile].part[0][2 * half + j] = own;
          }
        });
      }
    });
  }
  template <int stage>
  RNNC_MEMBER void finish_products(const Totals& total) {
    for_pairs_of<stage>([&](auto pair, auto tile, auto half, auto) {
      repeat<kItems>([&](int j) {
        const float own = total[tile][half][j];
        real& sum = gate[0][j][kPairGate[pair]];
        sum = kSeeded && first_of_gate(pair) ? own : sum + own;
      });
    });
  }

  // The words of what a stage multiplies: the states before the first one.
  template <int stage>
  RNNC_MEMBER void collect_for(Words& words, const PerItem<States>& states,
                               const StagedPush& push) const {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      real each[kItems];
      repeat<kItems>(
          [&](int j) { each[j] = exists ? this->to_multiply<source>(states, 0, j) : real(0); });
      push.collect(Element{}, words[source], each);
    });
  }

  RNNC_MEMBER void store_states_of(const StagedForwardArguments& a) {
    at_step([&](const auto& valid, const auto& at) { store_states(a, valid, at); });
  }
  // Stores what the step saves for a backward, and moves on to the next step.
  RNNC_MEMBER void store_saved_of(const StagedForwardArguments& a) {
    at_step([&](const auto& valid, const auto& at) { store_saved(a, valid, at); });
    repeat<kItems>([&](int j) { t_offset_bytes[j] += t_stride_bytes; });
  }
  // Stores zeros for the steps that no row of the tile runs.
  RNNC_MEMBER void store_zeros_of(const StagedForwardArguments& a, int64 steps) {
    masks.clear();
    const int64 step_bytes = a.batch * a.heads * Plan::kHeadDim * int64{sizeof(Element)};
    repeat<kItems>([&](int j) {
      t_offset_bytes[j] = offset_bytes[j] + steps * step_bytes;
    });
    t_stride_bytes = step_bytes;
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) {
      store_states_of(a);
      store_saved_of(a);
    }
  }

 private:
  // body(pair, tile, half, is_shared) for the pairs of a stage.
  template <int stage, typename Body>
  static RNNC_MEMBER void for_pairs_of(const Body& body) {
    Tiles::for_pairs([&](auto pair, auto, auto tile, auto half) {
      constexpr int source = source_of_pair(pair);
      constexpr int first = Tiles::first_tile(source);
      if constexpr (kSourceStage[source] == stage) {
        body(pair, tile, half,
             Index<is_shared_half(source, 2 * (decltype(tile)::value - first))>{});
      }
    });
  }
};

}  // namespace rnnc::cluster_forward
