// Forward kernel of a scan plan: tiles of steps, whose states follow from the last tile's.
//
// A thread first computes of its steps what does not wait for states, and keeps it in registers.
// Then it takes the steps twice: from states of 0, which gives their map, and from the states that
// the steps before them leave.
#pragma once

#include "lib/kernels/scan/forward_steps.cuh"
#include "lib/kernels/scan/tiles_of_block.cuh"
#include "lib/ptx/math.cuh"

namespace rnnc::scan_forward {

// Whether no saved value depends on states.
constexpr bool kSavesEarly = Cell::kDiagonalPairs == 0 && kLinear > 0;

using Results = Vec<Element, 1>[Cell::kStates];

// Where the results of a step are stored, and then those of the next step.
struct Places {
  Element* to[Cell::kStates];
  bool stores[Cell::kStates];
  int64 stride;

  RNNC_MEMBER Places(const ForwardArguments& a, const Tile& tile) {
    const TimeOrder& time = tile.channel.time;
    const int64 size = a.batch * tile.channel.plane;
    stride = time.stride(size);
    repeat<Cell::kStates>([&](int s) {
      stores[s] = a.states[s];
      to[s] = a.states[s] + time.at(tile.first) * size + tile.channel.offset();
    });
  }
  RNNC_MEMBER void store(const Results& results, bool own) {
    repeat<Cell::kStates>([&](int s) {
      if (stores[s] && own) results[s].store(to[s]);
      to[s] += stride;
    });
  }
};

// Passes over the steps of a thread.
struct Chunk : Steps {
  Carried after_restarts;  // what the steps leave if the row restarts before one of them

  RNNC_MEMBER u32 ready() const {
    return bits_of_steps<kEarly>(early) | (kMasked ? bits_of(after_restarts) : 0);
  }
  RNNC_MEMBER void follow_restarts() {
    if (!kMasked) return;
    repeat<kCarried>([&](int i) { after_restarts[i] = 0; });
    if (restarts.in_warp) follow_steps(after_restarts, restarts.of_pass(zero));
  }
  // Replaces what is carried into the steps by what they leave. NOTE: other warps wait for it, so no
  // step looks for a restart.
  RNNC_MEMBER void follow(Carried& carried) const {
    follow_steps(carried, 0);
    if (!kMasked) return;
    repeat<kCarried>([&](int i) { carried[i] = restarts.bits ? after_restarts[i] : carried[i]; });
  }
  RNNC_MEMBER void follow_steps(Carried& carried, u32 bits) const {
    States now = {};
    PackedSaved ignored;
    repeat<kCarried>([&](int i) { now[kCarriedState[i]] = carried[i]; });
    repeat<kSteps>([&](int j) {
      restart(bits, j, now);
      step(j, now, ignored);
    });
    repeat<kCarried>([&](int i) { carried[i] = now[kCarriedState[i]]; });
  }
  // What all steps make of the maxima that are carried.
  RNNC_MEMBER void summarize(MaxMap& map) {
    States now = {};
    PackedSaved ignored;
    map.begin();
    repeat<kMaxima>([&](int i) { now[kCarriedState[i]] = map.bound[i]; });
    const u32 bits = restarts.of_pass(zero);
    repeat<kSteps>([&](int j) {
      Maxima shift;
      restart(bits, j, now);
      apply_shifts(early[j], shift);
      map.append_step(shift);
      step(j, now, ignored);
    });
    repeat<kMaxima>([&](int i) { map.bound[i] = now[kCarriedState[i]]; });
    if (kMasked) map.cut(bits != 0);
  }
  // What all steps make of the other states, where the maxima among them are those that are carried.
  // Stores what does not depend on any.
  RNNC_MEMBER void summarize(Map& map, const Carried& carried, const ForwardArguments& a,
                             const Tile& tile) {
    States now = {};
    PackedSaved saved[kSteps];
    map.begin();
    repeat<kMaxima>([&](int i) { now[kCarriedState[i]] = carried[i]; });
    const u32 bits = restarts.of_pass(zero);
    repeat<kSteps>([&](int j) {
      restart(bits, j, now);
      apply_step_matrix(j, now, map);
      if (j % kRescaled == kRescaled - 1 || j == kSteps - 1) map.rescale();
      step(j, now, saved[j]);
    });
    repeat<kLinear>([&](int i) { map.offset[i] = now[kCarriedState[kMaxima + i]]; });
    if (kMasked) map.cut(bits != 0);
    if (kSavesEarly) store_saved(a, tile, saved);
  }
  // Computes all steps from what is carried into them, and stores the results.
  RNNC_MEMBER void run(const ForwardArguments& a, const Tile& tile, const Carried& carried) {
    if (kMasked && tile.whole && !restarts.in_warp) {
      run_steps<true>(a, tile, carried, 0);
      return;
    }
    const u32 bits = restarts.of_pass(zero);
    tile.in_parts([&](auto all) { run_steps<all.value>(a, tile, carried, bits); });
  }
  template <bool all>
  RNNC_MEMBER void run_steps(const ForwardArguments& a, const Tile& tile, const Carried& carried,
                             u32 bits) const {
    Results result;
    Vec<Element, 1> last[Cell::kStates];
    PackedSaved saved[kSteps];
    States now = {};
    repeat<kCarried>([&](int i) { now[kCarriedState[i]] = carried[i]; });
    Places places(a, tile);
    repeat<kSteps>([&](int j) {
      restart(bits, j, now);
      step(j, now, saved[j]);
      repeat<Cell::kStates>([&](int s) {
        result[s] = packed_one<Element>(now[s]);
        if (all ? j == kSteps - 1 : tile.is_last(j)) last[s] = result[s];
      });
      places.store(result, all || tile.owns(j));
    });
    repeat<Cell::kStates>([&](int s) {
      if (tile.has_last()) last[s].store(a.last[s] + tile.channel.offset());
    });
    if (Plan::kSequential || !kSavesEarly) store_saved(a, tile, saved);
  }
  RNNC_MEMBER void store_saved(const ForwardArguments& a, const Tile& tile,
                               const PackedSaved (&saved)[kSteps]) const {
    if (!Plan::kSaves || !Cell::kSaved || !a.saved) return;
    store(a.saved + tile.channel.offset() * Cell::kSaved, a, tile, saved);
  }
  // Stores values of all steps; `to` is the place of the first step in memory.
  template <int n>
  static RNNC_MEMBER void store(Element* to, const ForwardArguments& a, const Tile& tile,
                                const Vec<Element, n> (&values)[kSteps]) {
    const TimeOrder& time = tile.channel.time;
    const int64 size = a.batch * tile.channel.plane * n;
    tile.in_parts([&](auto all) {
      Element* next = to + time.at(tile.first) * size;
      repeat<kSteps>([&](int j) {
        if (all.value || tile.owns(j)) values[j].store(next);
        next += time.stride(size);
      });
    });
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

// What is carried into the first tile. Steps that are none leave the initial states.
RNNC_INLINE void begin(const ForwardArguments& a, const Tile& tile, Carried& begins) {
  const bool restarts = walk::restarts_first(a, tile.channel);
  repeat<kCarried>([&](int i) {
    begins[i] = to_real(*walk::first_states(a, tile.channel, kCarriedState[i], restarts));
  });
  if (tile.first > 0 || !tile.exists || tile.count > 0) return;
  repeat<Cell::kStates>([&](int s) {
    a.last[s][tile.channel.offset()] = a.initial_states[s][tile.channel.offset()];
  });
}

// All tiles of the block's channels, one after the other.
RNNC_INLINE void run_in_order(const ForwardArguments& a) {
  Tile tile(a, blockIdx.x, groups_of(a), tiles_of(a), 0);
  Chunk chunk;
  for_tiles_in_order(a, tile, chunk, [&] { store_zeros(a, tile); }, [&] {
    Carried carried;
    chunk.follow_restarts();
    if (tile.is_first()) begin(a, tile, carried);
    tile.carry_on(carried, chunk.ready(), [&](Carried& values) { chunk.follow(values); });
    chunk.run(a, tile, carried);
  });
}

RNNC_INLINE void run(const ScanArguments<ForwardArguments>& scan) {
  const ForwardArguments& a = scan.arguments;
  if constexpr (Plan::kSequential) return run_in_order(a);
  const auto copy = [&](const Tile& tile) { Chunk::copy(a, tile); };
  for_tiles(scan, copy, [&](const Tile& tile, const Records& records) {
    store_zeros(a, tile);
    if (!tile.runs()) return;
    Chunk chunk;
    chunk.load(a, tile);
    chunk.begin(a, tile.channel);
    Carried begins = {};
    if (tile.number == 0) begin(a, tile, begins);
    chunk.prepare();
    Carried carried;
    if constexpr (kMaxima > 0) {
      MaxMap map;
      chunk.summarize(map);
      tile.carry(carried, records, map, begins);
    }
    if constexpr (kLinear > 0) {
      Map map;
      chunk.summarize(map, carried, a, tile);
      tile.carry(carried, records, map, begins);
    }
    chunk.run(a, tile, carried);
  });
}

}  // namespace rnnc::scan_forward
