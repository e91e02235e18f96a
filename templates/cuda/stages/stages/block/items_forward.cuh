// The forward of a block plan for cells with stages: what it adds to the items of a thread, and to
// the layout of shared memory.
#pragma once

#include "lib/kernels/block/items_forward.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/block/row_store.cuh"
#include "lib/stages/block/statistics.cuh"

namespace rnnc::block_forward {

using Statistics =
    BlockStatistics<Plan::kUnitGroups, Plan::kThreadRows, Plan::kWarps, Plan::kHeadDim>;
using SavedStore = RowStore<Cell::kSaved, 32 * Plan::kWarps, Plan::kBlockRows, Plan::kHeadDim>;
static_assert(Statistics::kBytes + SavedStore::kBytes == Plan::kStagedShared,
              "the plan counted another size");

// R in registers, whose sources are multiplied at different times.
struct StagedWeights : Weights {
  // Adds the products that a stage needs. load(source, k_tile) gives the words of a source.
  template <int stage, typename Load>
  RNNC_MEMBER void multiply_for(Product& product, const Load& load) const {
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
  template <int source, int step>
  RNNC_MEMBER void add_step(Product& product, u32 b0, u32 b1) const {
    repeat<Tiles::tiles(source)>([&](int i) {
      const int tile = Tiles::first_tile(source) + i;
      product[tile].template add<step>(fragment[step / 2][step % 2][tile], b0, b1, rounding);
    });
  }
};

struct StagedItems : Items {
  PerItem<Gates> gate;  // pre-activations, as far as stages have added to them
  PerItem<Values> value;
  Numbers number[Plan::kThreadRows];

  // The gates of a step, as far as they do not wait for the step before.
  RNNC_MEMBER void begin_gates() {
    for_each([&](int group, int j) { assign(gate[group][j], base[group][j]); });
  }
  // After a step: what the next one begins from, and what it adds to the gates of that.
  RNNC_MEMBER void go_on(const PerItem<States>& next) {
    for_each([&](int group, int j) { assign(state[group][j], next[group][j]); });
    add_state_weights();
    masks.advance();
  }

  // Clears the accumulators of the products that a stage needs, or starts them from their gates.
  template <int stage>
  RNNC_MEMBER void start_products(Product& product) const {
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
  RNNC_MEMBER void finish_products(const Product& product) {
    for_pairs_of<stage>([&](auto pair, auto group, auto tile, auto half) {
      constexpr int number = kPairGate[pair];
      constexpr bool has_start = kSeeded && first_of_gate(pair);
      repeat<Plan::kThreadRows>([&](int j) {
        const float found = product[tile].total(2 * half + j);
        gate[group][j][number] = has_start ? found : gate[group][j][number] + found;
      });
    });
  }
  // The products with a weight per unit that a stage needs.
  template <int stage>
  RNNC_MEMBER void add_weights() {
    for_weights_of<stage>([&](const StageWeight& weight) {
      for_each([&](int group, int j) {
        gate[group][j][weight.gate] +=
            diagonal[group][weight.weight] * value[group][j][weight.value];
      });
    });
  }
  // Adds what the states give through weights per unit.
  RNNC_MEMBER void add_state_weights() {
    for_each([&](int group, int j) {
      repeat<Cell::kStateDiagonals>([&](int n) {
        const int i = kDiagonalOrder[n];
        base[group][j][kDiagonalGate[i]] +=
            diagonal[group][i] * state[group][j][kDiagonalSource[i]];
      });
    });
  }

  // One stage of all items. The last gives what the next step begins from.
  template <int stage, typename Sigmoid>
  RNNC_MEMBER void compute_stage(PerItem<States>& next, Sigmoid& sigmoid) {
    for_each([&](int group, int j) {
      apply_stage_forward<stage>(gate[group][j], state[group][j], param[group], number[j],
                                 value[group][j], next[group][j], saved[group][j], sigmoid);
      if constexpr (stage + 1 == Cell::kStages) masks.select(group, j, next[group][j]);
    });
  }

  // Writes what the products before a stage multiply: the states before the first one.
  template <int stage>
  RNNC_MEMBER void publish_for(char* buffer, const PerItem<States>& states) const {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      for_each([&](int group, int j) {
        real x;
        if constexpr (stage == 0) {
          x = states[group][j][kSourceState[source]];
        } else {
          x = value[group][j][kSourceValue[source]];
        }
        if (valid[group][j]) {
          *reinterpret_cast<Element*>(buffer + source * StateExchange::kBytes +
                                      exchange_offset[group][j]) = to_element<Element>(x);
        }
      });
    });
  }

  // Stores the states of a step.
  RNNC_MEMBER void store_states_of(const StagedForwardArguments& a, int64 t_offset) const {
    at_step(t_offset, [&](const auto& valid, const auto& at) { store_states(a, valid, at); });
  }
  // Stores what a step saves, and zeros in padding: products over all steps read what called gates
  // multiplied.
  RNNC_MEMBER void store_saved(const StagedForwardArguments& a, int64 t_offset) const {
    if (!Cell::kSaved || !a.saved) return;
    at_step(t_offset, [&](const auto&, const auto& at) {
      for_saved([&](int group, int j, const auto& vec) {
        vec.store(at(a.saved, Cell::kSaved, group, j));
      });
    });
  }
  // Writes it to shared memory; `first` is the offset of the thread's first unit and row.
  RNNC_MEMBER void write_saved(char* to, int first) const {
    for_saved([&](int group, int j, const auto& vec) {
      if constexpr (Cell::kSaved > 0) vec.write(to + first + SavedStore::offset(j, 8 * group));
    });
  }

 private:
  template <typename Body>
  RNNC_MEMBER void for_saved(const Body& body) const {
    for_each([&](int group, int j) {
      auto vec = pack_saved(saved[group][j]);
      masks.clear_padding(j, vec);
      if (valid[group][j]) body(group, j, vec);
    });
  }
  template <int stage, typename Body>
  static RNNC_MEMBER void for_pairs_of(const Body& body) {
    Tiles::for_pairs([&](auto pair, auto group, auto tile, auto half) {
      if constexpr (stage_of_pair(pair) == stage) body(pair, group, tile, half);
    });
  }
};

// Stores the saved numbers of the block's rows, each by one thread.
struct NumberStore {
  int64 offset[Plan::kThreadRows];  // in a step; -1: not this thread's
  real* at;                         // of the step whose numbers are stored next

  RNNC_MEMBER void begin(const StagedForwardArguments& a, const TimeOrder& time, int64 head,
                         int64 first_row) {
    at = a.statistics ? a.statistics + time.at(0) * (a.batch * a.heads * Cell::kSavedStatistics)
                      : nullptr;
    repeat<Plan::kThreadRows>([&](int j) {
      const int64 place = first_row + Plan::kThreadRows * threadIdx.x + j;
      const bool own = threadIdx.x < 4 && place < a.batch && a.statistics;
      offset[j] = own ? (row_at(a, place) * a.heads + head) * Cell::kSavedStatistics : -1;
    });
  }
  // Of the next step.
  RNNC_MEMBER void store(const StagedForwardArguments& a, const TimeOrder& time,
                         const Numbers (&number)[Plan::kThreadRows]) {
    if constexpr (Cell::kSavedStatistics > 0) {
      repeat<Plan::kThreadRows>([&](int j) {
        if (offset[j] < 0) return;
        repeat<Cell::kSavedStatistics>(
            [&](int k) { at[offset[j] + k] = number[j][kSavedStatistic[k]]; });
      });
      at += time.stride(a.batch * a.heads * Cell::kSavedStatistics);
    }
  }
};

}  // namespace rnnc::block_forward
