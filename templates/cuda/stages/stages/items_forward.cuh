// StagedForwardItems: what the forward of a cell with stages adds to the items of a thread.
#pragma once

#include "lib/cell/items_forward.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// Calls items(sigmoid) and finish() as with_sigmoid does. A stage that calls no sigmoid needs no vote
// on it, and no branch.
template <int stage, bool full_warps, typename Items, typename Finish>
RNNC_INLINE void with_stage_sigmoid(const Items& items, const Finish& finish) {
  if constexpr (kStageSigmoid[stage]) {
    with_sigmoid<full_warps>(items, finish);
  } else {
    FullSigmoid none;
    items(none);
    finish();
  }
}

// `Items` are a plan's, of `rows` batch rows.
template <typename Items, int rows>
struct StagedForwardItems : Items {
  template <typename T>
  using PerItem = typename Items::template PerItem<T>;

  PerItem<Gates> gate;  // pre-activations, as far as stages have added to them
  PerItem<Values> value;
  Numbers number[rows];

  // The products with a weight per unit that a stage needs.
  template <int stage>
  RNNC_MEMBER void add_weights() {
    for_weights_of<stage>([&](const StageWeight& weight) {
      this->for_each([&](int i, int j) {
        gate[i][j][weight.gate] += this->diagonal[i][weight.weight] * value[i][j][weight.value];
      });
    });
  }
  // Adds to gates what the states give through weights per unit.
  RNNC_MEMBER void add_state_weights(PerItem<Gates>& to) const {
    this->for_each([&](int i, int j) {
      repeat<Cell::kStateDiagonals>([&](int n) {
        const int pair = kDiagonalOrder[n];
        to[i][j][kDiagonalGate[pair]] +=
            this->diagonal[i][pair] * this->state[i][j][kDiagonalSource[pair]];
      });
    });
  }

  // One stage of all items. The last gives what the next step begins from.
  template <int stage, typename Sigmoid>
  RNNC_MEMBER void compute_stage(PerItem<States>& next, Sigmoid& sigmoid) {
    this->for_each([&](int i, int j) {
      apply_stage_forward<stage>(gate[i][j], this->state[i][j], this->param[i], number[j],
                                 value[i][j], next[i][j], this->saved[i][j], sigmoid);
      if constexpr (stage + 1 == Cell::kStages) this->masks.select(i, j, next[i][j]);
    });
  }
  // What the products of a source multiply: a state, or what a stage has left for called gates.
  template <int source>
  RNNC_MEMBER real to_multiply(const PerItem<States>& states, int i, int j) const {
    if constexpr (kSourceState[source] >= 0) {
      return states[i][j][kSourceState[source]];
    } else {
      return value[i][j][kSourceValue[source]];
    }
  }

  // body(i, j, vec) with what a step saves, and zeros in padding: products over all steps read what
  // called gates multiplied.
  template <typename Body>
  RNNC_MEMBER void for_saved(const Body& body) const {
    this->for_each([&](int i, int j) {
      auto vec = pack_saved(this->saved[i][j]);
      this->masks.clear_padding(j, vec);
      settle(vec);
      body(i, j, vec);
    });
  }
  // Stores what a step saves, where valid(i, j), at the addresses at(tensor, n, i, j).
  template <typename Valid, typename At>
  RNNC_MEMBER void store_saved(const StagedForwardArguments& a, const Valid& valid,
                               const At& at) const {
    if (!Cell::kSaved || !a.saved) return;
    for_saved([&](int i, int j, const auto& vec) {
      if (valid(i, j)) vec.store(at(a.saved, Cell::kSaved, i, j));
    });
  }
};

}  // namespace rnnc
