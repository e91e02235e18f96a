// What a backward reads of each step besides states and their gradients: the values that the forward
// saved, or the inputs of gates, which it then computes again.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/cell/item_backward.cuh"
#include "lib/kernels/walk/channel.cuh"

namespace rnnc::walk {

#ifdef RNNC_GATES_AGAIN

// Of a unit. Nothing is read where the backward needs no gate.
constexpr int kRead = Cell::kSaved ? Cell::kInputGates : 0;

struct ReadAgain {
  Gates bias;

  RNNC_MEMBER void begin(const BackwardArguments& a, int64 plane, int64 unit) {
    load_bias(bias, a, plane, unit);
  }
  // The elements of a channel's step in memory, and how far the next step's are.
  template <typename Channel>
  static RNNC_MEMBER const Element* at(const BackwardArguments& a, const Channel& channel,
                                       int64 place) {
    return a.wx + place * a.wx_time + channel.row * a.wx_row + channel.unit * kRead;
  }
  static RNNC_MEMBER int64 step_size(const BackwardArguments& a, int64) { return a.wx_time; }
  // Replaces the inputs of gates by the gates that the backward reads.
  RNNC_MEMBER void finish(ReadValues& values, const real (&read)[at_least_one(kRead)],
                          const Diagonal& diagonal, const States& before) const {
    Gates gate;
    repeat<Cell::kGates>([&](int g) {
      gate[g] = g < kRead ? read[g] : real(0);
      if (has_bias(g)) gate[g] += bias[g];
    });
    add_diagonal(gate, diagonal, before);
    repeat<Cell::kSaved>([&](int k) { values[k] = gate[kSavedGate[k]]; });
  }
};

#else

constexpr int kRead = Cell::kSaved;

struct ReadAgain {
  RNNC_MEMBER void begin(const BackwardArguments&, int64, int64) {}
  template <typename Channel>
  static RNNC_MEMBER const Element* at(const BackwardArguments& a, const Channel& channel,
                                       int64 place) {
    return a.saved + (place * a.batch * channel.plane + channel.offset()) * kRead;
  }
  static RNNC_MEMBER int64 step_size(const BackwardArguments& a, int64 plane) {
    return a.batch * plane * kRead;
  }
  RNNC_MEMBER void finish(ReadValues& values, const real (&read)[at_least_one(kRead)],
                          const Diagonal&, const States&) const {
    repeat<kRead>([&](int k) { values[k] = read[k]; });
  }
};

#endif

}  // namespace rnnc::walk
