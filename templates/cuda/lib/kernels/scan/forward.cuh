// Forward kernel of a scan plan: tiles of steps, whose states follow from the last tile's.
//
// A thread computes its steps twice from values in registers: from states of 0, which gives their
// map, then from the states that the steps before them leave.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/kernels/scan/tile.cuh"

namespace rnnc::scan_forward {

using namespace scan;
static_assert(sizeof(Shared) == Plan::kPlannedShared, "the plan counted another size");

constexpr int kSteps = Plan::kChunk;
#ifdef RNNC_UNWEIGHTED
constexpr int kOthers = Cell::kUnweighted;
#else
constexpr int kOthers = 0;
#endif
RNNC_INLINE bool is_needed(int) { return true; }

// The steps of a thread.
struct Chunk {
  Gates bias;
  walk::UnitValues param;
  Diagonal diagonal;
  Vec<Element, Cell::kInputGates> input[kSteps];
  real other[kSteps][at_least_one(kOthers)];
  bool restarts[kSteps];
  Resets resets;
  States late[kSteps];

  RNNC_MEMBER void load(const ForwardArguments& a, const Tile& tile) {
    const Channel& channel = tile.channel;
    const Element* const wx =
        a.wx + channel.row * a.wx_row + channel.unit * Cell::kInputGates;
    const char* const rows =
        kMasked ? restarts_of(a, channel.place, channel.time.reversed) : nullptr;
    repeat<kSteps>([&](int j) {
      const bool own = tile.owns(j);
      const int64 place = own ? channel.time.at(tile.first + j) : 0;
      restarts[j] = false;
      if (own) {
        input[j].load(wx + place * a.wx_time);
      } else {
        input[j] = {};
      }
      repeat<kOthers>([&](int k) { other[j][k] = 0; });
      if (own) load_unweighted(other[j], 0, a, channel, place);
      if (kMasked && own && tile.first + j > 0) {
        restarts[j] = ld_global_nc_u8(rows + place) & restart_bit(channel.place);
      }
      if (kResetsLate) {
        repeat<Cell::kStates>([&](int s) { late[j][s] = 0; });
        if (restarts[j]) Resets::load(late[j], a, channel, place, is_needed);
      }
    });
    resets.begin(a, channel, is_needed);
    load_bias(bias, a, channel.plane, channel.unit);
    walk::load_weights(param, diagonal, a, channel.plane, channel.unit);
    walk::fix(param);
  }
  // The gates of a step, without what its states give.
  RNNC_MEMBER void gates(int j, Gates& gate) const {
    repeat<Cell::kGates>([&](int g) {
      gate[g] = bias[g];
      if (g < Cell::kInputGates) gate[g] += input[j][g];
    });
    repeat<kOthers>([&](int k) { gate[Cell::kGates - kOthers + k] = other[j][k]; });
  }
  RNNC_MEMBER void restart(int j, States& state) const {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) {
      const real to = kResetsLate ? late[j][s] : resets.constant[s];
      state[s] = restarts[j] ? to : state[s];
    });
  }
  template <typename Sigmoid>
  RNNC_MEMBER void step(int j, States& state, Saved& saved, Sigmoid& sigmoid) const {
    Gates gate;
    States next;
    gates(j, gate);
    add_diagonal(gate, diagonal, state);
    apply_pointwise_forward(gate, state, param, next, saved, sigmoid);
    assign(state, next);
  }
  // What all steps make of the states that are carried.
  template <typename Sigmoid>
  RNNC_MEMBER void summarize(Map& map, Sigmoid& sigmoid) const {
    States now = {};
    map.begin();
    repeat<kSteps>([&](int j) {
      restart(j, now);
      if (kMasked) map.cut(restarts[j]);
      Gates gate;
      gates(j, gate);
      apply_coefficients(gate, diagonal, param, map.column, sigmoid);
      if (j % kRescaled == kRescaled - 1 || j == kSteps - 1) map.rescale();
      Saved ignored;
      step(j, now, ignored, sigmoid);
    });
    repeat<kCarried>([&](int i) { map.offset[i] = now[kCarriedState[i]]; });
  }
  // Computes all steps from what is carried into them, and stores the results.
  template <typename Sigmoid>
  RNNC_MEMBER void run(const ForwardArguments& a, const Tile& tile, const Carried& carried,
                       Sigmoid& sigmoid) const {
    const Channel& channel = tile.channel;
    const int64 size = a.batch * channel.plane, stride = channel.time.stride(size);
    const int64 offset = channel.time.at(tile.first) * size + channel.offset();
    States now = {}, last = {};
    repeat<kCarried>([&](int i) { now[kCarriedState[i]] = carried[i]; });
    repeat<kSteps>([&](int j) {
      Saved saved;
      restart(j, now);
      step(j, now, saved, sigmoid);
      repeat<Cell::kStates>([&](int s) { last[s] = tile.is_last(j) ? now[s] : last[s]; });
      if (!tile.owns(j)) return;
      const int64 at = offset + j * stride;
      repeat<Cell::kStates>([&](int s) {
        if (a.states[s]) pack_state(now[s]).store(a.states[s] + at);
      });
      if (Cell::kSaved && a.saved) pack_saved(saved).store(a.saved + at * Cell::kSaved);
    });
    if (!tile.has_last()) return;
    repeat<Cell::kStates>(
        [&](int s) { a.last[s][channel.offset()] = to_element<Element>(last[s]); });
  }
};

// Zeros in padding.
RNNC_INLINE void store_zeros(const ForwardArguments& a, const Tile& tile) {
  if (!kMasked || !tile.exists) return;
#pragma unroll 1
  for (int64 t = maximum(tile.first, tile.count); t < tile.first + kSteps && t < a.steps; ++t) {
    const int64 at = t * a.batch * tile.channel.plane + tile.channel.offset();
    repeat<Cell::kStates>([&](int s) {
      if (a.states[s]) a.states[s][at] = to_element<Element>(real(0));
    });
  }
}

RNNC_INLINE void run(const ScanArguments<ForwardArguments>& scan) {
  const ForwardArguments& a = scan.arguments;
  for_tiles(scan, [&](const Tile& tile, const Records& records) {
    store_zeros(a, tile);
    if (!tile.runs()) return;
    Chunk chunk;
    chunk.load(a, tile);
    Carried begins = {};
    if (tile.number == 0) {
      const bool restarts = walk::restarts_first(a, tile.channel);
      repeat<kCarried>([&](int i) {
        begins[i] = to_real(*walk::first_states(a, tile.channel, kCarriedState[i], restarts));
      });
      if (tile.warp == 0 && tile.exists && tile.count == 0) {
        repeat<Cell::kStates>([&](int s) {
          a.last[s][tile.channel.offset()] = a.initial_states[s][tile.channel.offset()];
        });
      }
    }
    FullSigmoid sigmoid;
    Map map;
    chunk.summarize(map, sigmoid);
    Carried carried;
    tile.carry(carried, records, map, begins);
    chunk.run(a, tile, carried, sigmoid);
  });
}

}  // namespace rnnc::scan_forward
