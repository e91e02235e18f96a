// The forward of a block plan for cells with stages: what it adds to the items of a thread, and to
// the layout of shared memory.
#pragma once

#include "lib/kernels/block/items_forward.cuh"
#include "lib/stages/block/row_store.cuh"
#include "lib/stages/block/statistics.cuh"
#include "lib/stages/items_forward.cuh"
#include "lib/stages/result_store.cuh"

namespace rnnc::block_forward {

using Statistics =
    BlockStatistics<Plan::kUnitGroups, Plan::kThreadRows, Plan::kWarps, Plan::kHeadDim>;
using SavedStore = RowStore<Cell::kSaved, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim,
                            8 * Plan::kUnitGroups>;
static_assert(Statistics::kBytes + SavedStore::kBytes == Plan::kStagedShared,
              "the plan counted another size");

// How many tiles a stage multiplies, and accumulators of a tile: few instructions would wait for each
// other's results.
RNNC_CONSTEXPR int tiles_of(int stage) {
  int tiles = 0;
  for (int source = 0; source < Cell::kSources; ++source) {
    if (kSourceStage[source] == stage) tiles += Tiles::tiles(source);
  }
  return tiles;
}
RNNC_CONSTEXPR int accumulators_of(int stage) {
  return kPack == 2 ? minimum(ceil_div(4, at_least_one(tiles_of(stage))), 2 * kDimKTiles) : 2;
}
template <int stage>
using StageProduct = Accumulator<accumulators_of(stage)>[Weights::kTiles];

// R in registers, whose sources are multiplied at different times.
struct StagedWeights : Weights {
  // Adds the products that a stage needs. load(source, k_tile) gives the words of a source.
  template <int stage, typename Load>
  RNNC_MEMBER void multiply_for(StageProduct<stage>& product, const Load& load) const {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      for_k_tiles<kDimKTiles>([&](int k_tile) { return load(source, k_tile); },
                              [&](auto index, uint4 words) {
                                constexpr int k_tile = decltype(index)::value;
                                add_step<source, 2 * k_tile>(product, words.x, words.y);
                                add_step<source, 2 * k_tile + 1>(product, words.z, words.w);
                              });
    });
  }

 private:
  template <int source, int step, int n>
  RNNC_MEMBER void add_step(Accumulator<n> (&product)[Weights::kTiles], u32 b0, u32 b1) const {
    repeat<Tiles::tiles(source)>([&](int i) {
      const int tile = Tiles::first_tile(source) + i;
      product[tile].template add<step>(fragment[step / 2][step % 2][tile], b0, b1, rounding);
    });
  }
};

using DirectSavedStore = ResultStore<Cell::kSaved, Plan::kThreadRows>;
constexpr int kValidGroups =
    Plan::kHeadDim % (8 * Plan::kUnitGroups) == 0 ? 1 : Plan::kUnitGroups;
// Which tensors a thread stores its items in: bit s state s, bit kStates what is saved.
struct Stored {
  int of[kValidGroups][Plan::kThreadRows];
  RNNC_MEMBER bool has(int group, int j, int tensor) const {
    return of[kValidGroups == 1 ? 0 : group][j] >> tensor & 1;
  }
};

struct StagedItems : StagedForwardItems<Items, Plan::kThreadRows> {
  PerItem<Vec<Element, Cell::kSaved>> packed;  // what a step saved, in few registers until stored; no RowStore

  // The gates of a step without products.
  RNNC_MEMBER void begin_gates() {
    for_each([&](int group, int j) { assign(gate[group][j], base[group][j]); });
    add_state_weights(gate);
  }
  // After a step: the states that the next one begins from, and what it saved.
  RNNC_MEMBER void go_on(const PerItem<States>& next) {
    for_each([&](int group, int j) {
      assign(state[group][j], next[group][j]);
      if constexpr (!SavedStore::kUsed) {
        packed[group][j] = pack_saved(saved[group][j]);
        launder_words(packed[group][j]);
      }
    });
  }

  // Clears the accumulators of the products that a stage needs, or starts them from their gates.
  template <int stage>
  RNNC_MEMBER void start_products(StageProduct<stage>& product) const {
    for_sources_of<stage>([&](auto source) {
      repeat<Tiles::tiles(source)>(
          [&](int i) { product[Tiles::first_tile(source) + i].clear(); });
    });
    for_pairs_of<stage>([&](auto pair, auto group, auto tile, auto half) {
      if constexpr (kSeeded && first_of_gate(pair)) {
        repeat<Plan::kThreadRows>(
            [&](int j) { product[tile].part[0][2 * half + j] = gate[group][j][kPairGate[pair]]; });
      }
    });
  }
  template <int stage>
  RNNC_MEMBER void finish_products(const StageProduct<stage>& product) {
    for_pairs_of<stage>([&](auto pair, auto group, auto tile, auto half) {
      constexpr int number = kPairGate[pair];
      constexpr bool has_start = kSeeded && first_of_gate(pair);
      repeat<Plan::kThreadRows>([&](int j) {
        const float found = product[tile].total(2 * half + j);
        gate[group][j][number] = has_start ? found : gate[group][j][number] + found;
      });
    });
  }
  // Writes what the products before a stage multiply: the states before the first one.
  template <int stage>
  RNNC_MEMBER void publish_for(char* buffer, const PerItem<States>& states) const {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      for_each([&](int group, int j) {
        const real x = to_multiply<source>(states, group, j);
        if (valid[group][j]) {
          *reinterpret_cast<Element*>(buffer + source * StateExchange::kBytes +
                                      exchange_offset[group][j]) = to_element<Element>(x);
        }
      });
    });
  }

  // NOTE: step 0 stores no results of a step before it, but by a predicate. If they were not defined
  // then, the compiler would be free to store others in every step, and did.
  RNNC_MEMBER void clear_results() {
    memset(this->saved, 0, sizeof this->saved);
    memset(number, 0, sizeof number);
  }
  RNNC_MEMBER void begin_stored(Stored& stored, const StagedForwardArguments& a) const {
    int tensors = a.saved ? 1 << Cell::kStates : 0;
    repeat<Cell::kStates>([&](int s) { tensors |= a.states[s] ? 1 << s : 0; });
    repeat<Plan::kThreadRows>([&](int j) {
      repeat<kValidGroups>([&](int i) { stored.of[i][j] = pin(valid[i][j] ? tensors : 0); });
    });
  }
  // Stores the states of a step, and what it saves, if they are to be stored.
  RNNC_MEMBER void store_results(ResultStore<1, Plan::kThreadRows> (&store)[Cell::kStates],
                                 const Stored& stored, bool holds) const {
    repeat<Cell::kStates>([&](int s) {
      store[s].advance();
      for_each([&](int i, int j) {
        auto vec = pack_state(masks.results(i, j, state[i][j])[s]);
        masks.clear_padding(j, vec);
        store[s].store(holds && stored.has(i, j, s), vec, j, 8 * i);
      });
    });
  }
  RNNC_MEMBER void store_saved_directly(DirectSavedStore& store, const Stored& stored, bool holds) const {
    store.advance();
    for_packed([&](int i, int j, const auto& vec) {
      store.store(holds && stored.has(i, j, Cell::kStates), vec, j, 8 * i);
    });
  }
  // Stores the states of a step.
  RNNC_MEMBER void store_states_of(const StagedForwardArguments& a, int64 t_offset) const {
    at_step(t_offset, [&](const auto& valid, const auto& at) { store_states(a, valid, at); });
  }
  // body(i, j, vec) with what the last step has saved, and zeros in padding.
  template <typename Body>
  RNNC_MEMBER void for_packed(const Body& body) const {
    for_each([&](int i, int j) {
      auto vec = packed[i][j];
      masks.clear_padding(j, vec);
      settle(vec);
      body(i, j, vec);
    });
  }
  // Stores what a step saves.
  RNNC_MEMBER void store_saved_of(const StagedForwardArguments& a, int64 t_offset) const {
    at_step(t_offset, [&](const auto& valid, const auto& at) { store_saved(a, valid, at); });
  }
  // Writes it to shared memory; `first` is the offset of the thread's first unit and row.
  RNNC_MEMBER void write_saved(char* to, int first) const {
    for_saved([&](int group, int j, const auto& vec) {
      if constexpr (Cell::kSaved > 0) {
        if (SavedStore::kHasAll || valid[group][j]) {
          write_aligned(vec, to + first + SavedStore::offset(j, 8 * group));
        }
      }
    });
  }

 private:
  template <int stage, typename Body>
  static RNNC_MEMBER void for_pairs_of(const Body& body) {
    Tiles::for_pairs([&](auto pair, auto group, auto tile, auto half) {
      if constexpr (stage_of_pair(pair) == stage) body(pair, group, tile, half);
    });
  }
};

}  // namespace rnnc::block_forward
