// Channel: which units of which batch row a thread of a walk plan has, and the steps that it runs.
//
// A thread never waits for another one. So rows may end where they like: each thread counts its own
// steps, and none runs through padding.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/mask.cuh"

namespace rnnc::walk {

constexpr int kThreads = 32;  // per block: the more blocks, the more evenly SMs are filled

// Of `units` neighbouring units, which divide the units of a head.
template <int units>
struct Channel {
  int64 row, place;        // in the batch, and its place in the order of rows
  int64 unit, plane;       // the first unit, in [N, D], and how many [N, D] has
  int head, head_unit;     // of the first unit
  int count;               // steps that the row runs
  bool exists;
  TimeOrder time;          // of these steps

  template <typename Arguments>
  RNNC_MEMBER explicit Channel(const Arguments& a)
      : Channel(a, int64{blockIdx.x} * kThreads + threadIdx.x) {}
  // The one of a thread, by its number among all of a launch.
  template <typename Arguments>
  RNNC_MEMBER Channel(const Arguments& a, int64 index) {
    plane = a.heads * a.dim;
    const int64 threads = plane / units;
    place = index / threads;
    exists = place < a.batch;
    if (!exists) return;
    unit = (index - place * threads) * units;
    row = kMasked ? row_at(a, place) : place;
    head = static_cast<int>(unit / a.dim);
    head_unit = static_cast<int>(unit - head * a.dim);
    count = static_cast<int>(a.steps);
    if (kMasked) count = minimum(maximum(row_steps(a, row), 0), count);
    time = TimeOrder(count, Order(head, a.heads));
  }

  // The offset of the first unit in a tensor of states, [B, N, D].
  RNNC_MEMBER int64 offset() const { return row * plane + unit; }
};

// Whether a gate has a bias: to add none takes no instruction.
RNNC_CONSTEXPR bool has_bias(int gate) {
  bool found = false;
  for (int i = 0; i < Cell::kBiasGates; ++i) found = found || kBias[i] == gate;
  return found;
}
// Loads the params and diagonal weights of a unit; `param` has room for more values behind them.
template <int n, typename Arguments>
RNNC_INLINE void load_weights(real (&param)[n], Diagonal& diagonal, const Arguments& a,
                              int64 plane, int64 unit) {
  Params given;
  load_unit_weights(given, diagonal, a, plane, unit);
  repeat<Cell::kParams>([&](int i) { param[i] = given[i]; });
}

// Whether the row restarts before the first of its steps.
template <typename Arguments, int units>
RNNC_INLINE bool restarts_first(const Arguments& a, const Channel<units>& channel) {
  if (!kMasked || channel.count == 0) return false;
  const char* const rows = restarts_of(a, channel.place, channel.time.reversed);
  return ld_global_nc_u8(rows + channel.time.at(0)) & restart_bit(channel.place);
}
// What the first step begins from: of a state, the initial values or those after a restart.
template <typename Arguments, int units>
RNNC_INLINE const Element* first_states(const Arguments& a, const Channel<units>& channel, int s,
                                        bool restarts) {
  if (!restarts) return a.initial_states[s] + channel.offset();
  return reset_value(a, s, channel.time.at(0), channel.row, channel.unit, channel.time.reversed);
}

}  // namespace rnnc::walk
