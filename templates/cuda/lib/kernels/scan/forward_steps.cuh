// Steps of a thread in a scan's forward: what they read, and what each of them computes. What does
// not wait for states is in registers before them.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/kernels/scan/staged.cuh"
#include "lib/kernels/scan/step_inputs.cuh"

namespace rnnc::scan_forward {

using namespace scan;

constexpr int kSteps = Plan::kChunk;
using InputRows = Rows<Cell::kInputGates>;
constexpr int kRestartsAt = InputRows::kBytes;
constexpr int kWarpBytes = kRestartsAt + Restarts::kBytes;
static_assert(kStagedAt + 2 * Plan::kWarps * kWarpBytes == kPlannedShared,
              "the plan counted another size");
#ifdef RNNC_UNWEIGHTED
constexpr int kOthers = Cell::kUnweighted;
#else
constexpr int kOthers = 0;
#endif
RNNC_INLINE bool is_needed(int) { return true; }
using PackedSaved = Vec<Element, Cell::kSaved>;

// The sigmoid without a second way, which would need as many registers again, and without a branch.
struct OwnSigmoid {
  RNNC_MEMBER real operator()(real x) const { return sigmoid(x); }
};

struct Steps {
  Gates bias;
  walk::UnitValues param;
  Diagonal diagonal;
  const char* rows;  // inputs in shared memory
  int lane;
  Vec<Element, Cell::kInputGates> input[Plan::kWholeWarps ? 1 : kSteps];  // or in registers
  real other[kSteps][at_least_one(kOthers)];
  Early early[kSteps];
  Restarts restarts;
  u32 zero;
  Resets resets;
  States late[kSteps];

  // What is the same for all steps of the channel.
  RNNC_MEMBER void begin(const ForwardArguments& a, const Channel& channel) {
    resets.begin(a, channel, is_needed);
    load_bias(bias, a, channel.plane, channel.unit);
    walk::load_weights(param, diagonal, a, channel.plane, channel.unit);
    walk::fix(param);
  }
  RNNC_MEMBER void load(const ForwardArguments& a, const Tile& tile) {
    if constexpr (Plan::kWholeWarps) {
      rows = area(tile);
      lane = tile.lane;
    } else {
      tile.in_parts([&](auto all) { load_steps<all.value>(a, tile); });
    }
    if (kOthers) load_others(a, tile);
    load_restarts(a, tile);
  }
  static RNNC_MEMBER char* area(const Tile& tile) {
    return shared + kStagedAt + (tile.turn * Plan::kWarps + tile.warp) * kWarpBytes;
  }
  static RNNC_MEMBER void copy(const ForwardArguments& a, const Tile& tile) {
    const Channel& channel = tile.channel;
    const int first = tile.warp_first(), left = tile.count - first;
    const Element* const of_lane = a.wx + channel.time.at(left > 0 ? first : 0) * a.wx_time +
                                   channel.row * a.wx_row + channel.unit * Cell::kInputGates;
    InputRows::copy(area(tile), of_lane - tile.lane % kChannels * Cell::kInputGates,
                    channel.time.stride(a.wx_time), left, tile.lane);
    Restarts::copy(area(tile) + kRestartsAt, a, tile, static_cast<int>(channel.time.at(first)),
                   false);
    cp_async_commit();
  }
  RNNC_MEMBER void load_others(const ForwardArguments& a, const Tile& tile) {
    repeat<kSteps>([&](int j) {
      const bool own = tile.owns(j);
      repeat<kOthers>([&](int k) { other[j][k] = 0; });
      const int64 place = own ? tile.channel.time.at(tile.first + j) : 0;
      if (own) load_unweighted(other[j], 0, a, tile.channel, place);
    });
  }
  // Which steps the row restarts before. The first of all is left out: `first_states` knows it.
  RNNC_MEMBER void load_restarts(const ForwardArguments& a, const Tile& tile) {
    zero = tile.zero;
    if (!kMasked) return;
    const Channel& channel = tile.channel;
    restarts.read(area(tile) + kRestartsAt, a, tile, static_cast<int>(channel.time.at(tile.first)),
                  false, tile.count - tile.first);
    if (tile.first == 0) restarts.bits &= ~1u;
    if (!kResetsLate) return;
    repeat<kSteps>([&](int j) {
      const int t = tile.first + j;
      repeat<Cell::kStates>([&](int s) { late[j][s] = 0; });
      if (restarts.bits >> j & 1) Resets::load(late[j], a, channel, channel.time.at(t), is_needed);
    });
  }
  template <bool all>
  RNNC_MEMBER void load_steps(const ForwardArguments& a, const Tile& tile) {
    const Channel& channel = tile.channel;
    const int64 stride = channel.time.stride(a.wx_time);
    const Element* from = a.wx + channel.time.at(tile.first) * a.wx_time +
                          channel.row * a.wx_row + channel.unit * Cell::kInputGates;
    repeat<kSteps>([&](int j) {
      const bool own = all || tile.owns(j);
      if (!own) input[j] = {};
      if (own) input[j].load(from);
      from += stride;
    });
  }
  // The gates of a step, without what its states give.
  RNNC_MEMBER void gates(int j, Gates& gate) const {
    Vec<Element, Cell::kInputGates> read;
    if constexpr (Plan::kWholeWarps) {
      InputRows::read(read, rows, j, lane);
    } else {
      read = input[j];
    }
    repeat<Cell::kGates>([&](int g) {
      gate[g] = g < Cell::kInputGates ? read[g] : real(0);
      if (walk::has_bias(g)) gate[g] += bias[g];
    });
    repeat<kOthers>([&](int k) { gate[Cell::kGates - kOthers + k] = other[j][k]; });
  }
  RNNC_MEMBER void restart(u32 bits, int j, States& state) const {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) {
      const real to = kResetsLate ? late[j][s] : resets.constant[s];
      state[s] = bits >> j & 1 ? to : state[s];
    });
  }
  RNNC_MEMBER void prepare() {
    wait_for_loads();
    OwnSigmoid sigmoid;
    repeat<kSteps>([&](int j) {
      Gates gate;
      gates(j, gate);
      apply_early(gate, param, diagonal, early[j], sigmoid);
    });
  }
  RNNC_MEMBER void step(int j, States& state, PackedSaved& saved) const {
    Gates gate;
    States next;
    Saved kept;
    OwnSigmoid sigmoid;
    gates(j, gate);
    add_diagonal(gate, diagonal, state);
    apply_late(gate, state, param, early[j], next, kept, sigmoid);
    saved = pack_saved(kept);
    assign(state, next);
  }
  RNNC_MEMBER void apply_step_matrix(int j, const States& state, Map& map) const {
    Gates gate;
    OwnSigmoid sigmoid;
    gates(j, gate);
    apply_matrix(gate, state, param, diagonal, early[j], map.column, sigmoid);
  }
};

}  // namespace rnnc::scan_forward
