// BackwardItems: what a thread of a block or cluster plan keeps of its items in the backward.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/cell/mask_backward.cuh"
#include "lib/cell/unweighted.cuh"

namespace rnnc {

// A thread has `rows` batch rows of `units` units.
template <int units, int rows, typename Masks = BackwardMasks<units, rows>>
struct BackwardItems {
  template <typename T>
  using PerItem = T[units][rows];

  Params param[units];
  Diagonal diagonal[units];
  PerItem<States> after, d_state;  // the states after the step, and their gradients
  GradientSums sums[units] = {};
  Masks masks;
  Unweighted<units, rows> unweighted;

  // body(i, j) for unit i and row j.
  template <typename Body>
  static RNNC_MEMBER void for_each(const Body& body) {
    repeat<units>([&](int i) { repeat<rows>([&](int j) { body(i, j); }); });
  }

  // Loads the states after the last step and their gradients. at(tensor) is the item's address in a
  // tensor of states.
  template <typename At>
  RNNC_MEMBER void load_states(int i, int j, const BackwardArguments& a, const TimeOrder& time,
                               const TileSteps& tile_steps, int64 step_size, const At& at) {
    const int steps = static_cast<int>(tile_steps.of(a));
    repeat<Cell::kStates>([&](int s) {
      const Element* last = a.states[s] + time.at(steps - 1) * step_size;
      after[i][j][s] = kReads[s] && steps > 0 ? to_real(*at(last)) : real(0);
      d_state[i][j][s] = a.d_last[s] ? to_real(*at(a.d_last[s])) : real(0);
    });
  }

  // Adds the sums of the lanes that share a unit, whose indices differ in the bits of `lanes`, and
  // starts new ones. store(i, k, total) stores sum k of unit i.
  template <int lanes, typename Store>
  RNNC_MEMBER void store_sums(const Store& store) {
    repeat<units>([&](int i) {
      repeat<Cell::kSums>([&](int k) {
        real total = sums[i][k];
        repeat<4>([&](int bit) {
          if (lanes >> bit & 1) total += __shfl_xor_sync(~0u, total, 1 << bit);
        });
        sums[i][k] = 0;
        store(i, k, total);
      });
    });
  }
  // Stores the gradients of the initial states, where valid(i, j).
  template <typename Valid, typename At>
  RNNC_MEMBER void store_initial(const BackwardArguments& a, int64 steps, const Valid& valid,
                                 const At& at) {
    for_each([&](int i, int j) {
      if (!masks.finish(i, j, a, steps, valid(i, j), d_state[i][j])) return;
      repeat<Cell::kStates>([&](int s) {
        if (valid(i, j)) {
          *at(a.d_initial_states[s], i, j) = to_element<Element>(d_state[i][j][s]);
        }
      });
    });
  }
};

}  // namespace rnnc
