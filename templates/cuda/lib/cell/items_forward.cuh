// ForwardItems: what a thread of a block or cluster plan keeps of its items in the forward.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/cell/mask_forward.cuh"
#include "lib/cell/unweighted.cuh"

namespace rnnc {

// A thread has `rows` batch rows of `units` units.
template <int units, int rows>
struct ForwardItems {
  template <typename T>
  using PerItem = T[units][rows];

  Gates bias[units];
  Params param[units];
  Diagonal diagonal[units];
  PerItem<States> state;
  PerItem<Saved> saved;
  ForwardMasks<units, rows> masks;
  Unweighted<units, rows> unweighted;

  // body(i, j) for unit i and row j.
  template <typename Body>
  static RNNC_MEMBER void for_each(const Body& body) {
    repeat<units>([&](int i) { repeat<rows>([&](int j) { body(i, j); }); });
  }

  // `unit` indexes [N, D], of `plane` units.
  RNNC_MEMBER void load_unit(int i, const ForwardArguments& a, int64 plane, int64 unit) {
    load_bias(bias[i], a, plane, unit);
    load_unit_weights(param[i], diagonal[i], a, plane, unit);
  }

  // Once the rows and units of `masks` have their places, and the items their initial states.
  RNNC_MEMBER void begin_masks(const ForwardArguments& a, const TimeOrder& time, int steps) {
    masks.begin(a, time, steps);
    for_each([&](int i, int j) { masks.begin_states(i, j, a, time, state[i][j]); });
  }

  // Applies the pointwise map of the cell to all items: `next` is what the next step begins from.
  template <typename Sigmoid>
  RNNC_MEMBER void compute(const PerItem<Gates>& gate, PerItem<States>& next, Sigmoid& sigmoid) {
    for_each([&](int i, int j) {
      apply_pointwise_forward(gate[i][j], state[i][j], param[i], next[i][j], saved[i][j], sigmoid);
      masks.select(i, j, next[i][j]);
    });
  }

  // Stores the states of a step, where valid(i, j). at(tensor, n, i, j) is the address of an item
  // in a tensor of all steps with n values per item.
  template <typename Valid, typename At>
  RNNC_MEMBER void store_states(const ForwardArguments& a, const Valid& valid, const At& at) const {
    repeat<Cell::kStates>([&](int s) {
      if (!a.states[s]) return;
      for_each([&](int i, int j) {
        auto vec = pack_state(masks.results(i, j, state[i][j])[s]);
        masks.clear_padding(j, vec);
        if (valid(i, j)) vec.store(at(a.states[s], 1, i, j));
      });
    });
  }
  // Stores the states and saved values of a step, as `store_states` does.
  template <typename Valid, typename At>
  RNNC_MEMBER void store(const ForwardArguments& a, const Valid& valid, const At& at) const {
    store_states(a, valid, at);
    if (!Cell::kSaved || !a.saved) return;
    for_each([&](int i, int j) {
      const auto vec = pack_saved(saved[i][j]);
      if (valid(i, j)) vec.store(at(a.saved, Cell::kSaved, i, j));
    });
  }
  // Stores the states after the last step; at(tensor, 1, i, j) is an address in a tensor of states.
  template <typename Valid, typename At>
  RNNC_MEMBER void store_last(const ForwardArguments& a, int steps, const Valid& valid,
                              const At& at) {
    for_each([&](int i, int j) {
      if (!masks.finish(i, j, a, steps, state[i][j])) return;
      repeat<Cell::kStates>([&](int s) {
        if (valid(i, j)) *at(a.last[s], 1, i, j) = to_element<Element>(state[i][j][s]);
      });
    });
  }
};

}  // namespace rnnc
