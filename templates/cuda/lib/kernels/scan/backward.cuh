// Backward kernel of a scan plan: tiles of steps from the last one on. What is carried are
// gradients of states; the adjoint of a step is linear in them, whatever the step is.
#pragma once

#include "lib/kernels/scan/backward_steps.cuh"
#include "lib/kernels/scan/tiles_of_block.cuh"

namespace rnnc::scan_backward {

// Where the gradients of a step's gates are stored, and then those of the step before it.
struct Places {
  Element *d_wx, *d_no_input;
  int64 back;

  RNNC_MEMBER Places(const BackwardArguments& a, const Tile& tile) {
    const TimeOrder& time = tile.channel.time;
    const int64 size = a.batch * tile.channel.plane;
    const int64 offset =
        time.at(tile.count - 1 - tile.first) * size + tile.channel.offset();
    back = time.stride(size);
    d_wx = a.d_wx + offset * Cell::kInputGates;
    d_no_input = a.d_gates_no_input + offset * kGatesNoInput;
  }
  RNNC_MEMBER void store(const PackedGates& gates, bool own) {
    if (own) gates.store(d_wx, d_no_input);
    d_wx -= back * Cell::kInputGates;
    d_no_input -= back * kGatesNoInput;
  }
};

// Passes over the steps of a thread.
struct Chunk : Steps {
  Carried after_restarts;  // what the steps leave if the row restarts before one of them

  RNNC_MEMBER void follow_restarts(const States& d_last) {
    if (!kMasked) return;
    repeat<kCarried>([&](int i) { after_restarts[i] = 0; });
    if (restarts.in_warp) follow_steps(after_restarts, d_last, restarts.of_pass(zero));
  }
  RNNC_MEMBER u32 ready() const {
    return bits_of_steps<kEarly>(early) | (kMasked ? bits_of(after_restarts) : 0);
  }
  // Replaces what is carried into the steps by what they leave. NOTE: other warps wait for it, so no
  // step looks for a restart.
  RNNC_MEMBER void follow(Carried& carried, const States& d_last) const {
    follow_steps(carried, d_last, 0);
    if (!kMasked) return;
    repeat<kCarried>([&](int i) { carried[i] = restarts.bits ? after_restarts[i] : carried[i]; });
  }
  RNNC_MEMBER void follow_steps(Carried& carried, const States& d_last, u32 bits) const {
    States d_state;
    assign(d_state, d_last);
    repeat<kCarried>([&](int i) { d_state[kCarriedState[i]] += carried[i]; });
    repeat<kSteps>([&](int j) {
      Gates ignored;
      Params ignored_too;
      add_gradient(j, d_state);
      step(bits, j, d_state, ignored, ignored_too);
      repeat<Cell::kStates>([&](int s) { d_state[s] = bits >> j & 1 ? real(0) : d_state[s]; });
    });
    repeat<kCarried>([&](int i) { carried[i] = d_state[kCarriedState[i]]; });
  }
  // What all steps make of the gradients that are carried; `d_last` is carried into the first one
  // without taking part in the scan.
  RNNC_MEMBER void summarize(Map& map, const States& d_last) {
    States d_state;
    assign(d_state, d_last);
    map.begin();
    const u32 bits = restarts.of_pass(zero);
    repeat<kSteps>([&](int j) {
      Gates ignored;
      Params ignored_too;
      Carried of_step[kCarried];
      repeat<kCarried>([&](int c) {
        States column = {};
        // The adjoint of the map so far, or of a unit where the map has more digits than a state.
        repeat<kCarried>([&](int i) {
          column[kCarriedState[i]] = kWide ? real(i == c) : static_cast<real>(map.column[c][i]);
        });
        step(bits, j, column, ignored, ignored_too);
        repeat<kCarried>([&](int i) { of_step[c][i] = column[kCarriedState[i]]; });
        if (kWide) return;
        repeat<kCarried>([&](int i) { map.column[c][i] = of_step[c][i]; });
      });
      if (kWide) map.append_step(of_step);
      if (j % kRescaled == kRescaled - 1 || j == kSteps - 1) map.rescale();
      add_gradient(j, d_state);
      step(bits, j, d_state, ignored, ignored_too);
      repeat<Cell::kStates>([&](int s) { d_state[s] = bits >> j & 1 ? real(0) : d_state[s]; });
    });
    repeat<kCarried>([&](int i) { map.offset[i] = d_state[kCarriedState[i]]; });
    if (kMasked) map.cut(bits != 0);
  }
  // Computes all steps from what is carried into them, and stores the gradients.
  RNNC_MEMBER void run(const BackwardArguments& a, const Tile& tile, const Carried& carried,
                       const States& d_last) {
    tile.in_parts([&](auto all) { run_steps<all.value>(a, tile, carried, d_last); });
  }
  template <bool all>
  RNNC_MEMBER void run_steps(const BackwardArguments& a, const Tile& tile, const Carried& carried,
                             const States& d_last) {
    const Channel& channel = tile.channel;
    Places places(a, tile);
    States d_state, d_initial = {};
    GradientSums sums = {};
    real d_reset[at_least_one(kResetSums)] = {};
    assign(d_state, d_last);
    repeat<kCarried>([&](int i) { d_state[kCarriedState[i]] += carried[i]; });
    const u32 bits = restarts.of_pass(zero);
    repeat<kSteps>([&](int j) {
      const bool own = all || tile.owns(j);
      Gates d_gate;
      Params d_param;
      States before, after;
      states_of(bits, j, before, after);
      add_gradient(j, d_state);
      step(bits, j, d_state, d_gate, d_param);
      repeat<kResetSums>([&](int s) {
        if (!(bits >> j & 1)) return;
        d_reset[s] += d_state[s];
        d_state[s] = 0;
      });
      repeat<Cell::kStates>([&](int s) {
        d_initial[s] = (all ? j == kSteps - 1 : tile.is_last(j)) ? d_state[s] : d_initial[s];
      });
      places.store(PackedGates(d_gate), own);
      Gates counted;
      repeat<Cell::kGates>([&](int g) { counted[g] = own ? d_gate[g] : real(0); });
      repeat<Cell::kParams>([&](int i) { d_param[i] = own ? d_param[i] : real(0); });
      add_to_sums(sums, counted, d_param, before);
    });
    if (tile.has_last()) {
      const bool restarts_first = walk::restarts_first(a, channel);
      repeat<kResetSums>([&](int s) {
        d_reset[s] += restarts_first ? d_initial[s] : real(0);
        d_initial[s] = restarts_first ? real(0) : d_initial[s];
      });
      repeat<Cell::kStates>([&](int s) {
        a.d_initial_states[s][channel.offset()] = to_element<Element>(d_initial[s]);
      });
    }
    if (!kAllSums) return;
    SharedSums& to = *reinterpret_cast<SharedSums*>(shared + kSumsAt);
    const auto give = [&](int k, real sum) {
      SumOverTime& own = to.sum[k][tile.warp][tile.lane];
      own = (Plan::kSequential && tile.number > 0 ? own : SumOverTime(0)) + SumOverTime(sum);
    };
    repeat<Cell::kSums>([&](int k) { give(k, sums[k]); });
    repeat<kResetSums>([&](int s) { give(Cell::kSums + s, d_reset[s]); });
  }
};

// Stores the sums over the steps of a tile, or of all, those of warps added in order; or zeros.
RNNC_INLINE void store_sums(const BackwardArguments& a, const Tile& tile, bool runs) {
  if (!kAllSums || !tile.exists || tile.part() > 0) return;
  const SharedSums& from = *reinterpret_cast<const SharedSums*>(shared + kSumsAt);
  const int64 row = tile.channel.row;
  const int64 part = Plan::kSequential ? row : row * tile.tiles + tile.number;
  const int64 plane = tile.channel.plane, unit = tile.channel.unit;
#pragma unroll 1
  for (int k = tile.warp; k < kAllSums; k += Plan::kWarps) {
    SumOverTime sum = 0;
    if (runs) {
      repeat<Plan::kWarps>([&](int i) {
        repeat<kParts>([&](int p) { sum += from.sum[k][i][p * kChannels + tile.lane]; });
      });
    }
    if (k < Cell::kSums) {
      a.sums[(part * Cell::kSums + k) * plane + unit] = sum;
    } else if (a.d_reset_to[k - Cell::kSums]) {
      a.d_reset_to[k - Cell::kSums][part * plane + unit] = sum;
    }
  }
}

// Zeros in padding.
RNNC_INLINE void store_zeros(const BackwardArguments& a, const Tile& tile) {
  if (!kMasked || !tile.exists) return;
#pragma unroll 1
  for (int64 t = maximum(tile.first, tile.count); t < tile.first + kSteps && t < a.steps; ++t) {
    PackedGates(Gates{}).store(a, t * a.batch * tile.channel.plane + tile.channel.offset());
  }
}

// Gradients of the last states: what is carried into the first tile, and what no step carries on.
RNNC_INLINE void begin(const BackwardArguments& a, const Tile& tile, Carried& begins,
                       States& d_last) {
  const int64 offset = tile.channel.offset();
  States given;
  repeat<Cell::kStates>([&](int s) {
    given[s] = a.d_last[s] ? to_real(a.d_last[s][offset]) : real(0);
    if (tile.first == 0) d_last[s] = given[s];
    if (tile.first == 0 && tile.exists && tile.count == 0) {
      a.d_initial_states[s][offset] = to_element<Element>(given[s]);
    }
  });
  repeat<kCarried>([&](int i) {
    begins[i] = given[kCarriedState[i]];
    d_last[kCarriedState[i]] = 0;
  });
}

// All tiles of the block's channels, one after the other.
RNNC_INLINE void run_in_order(const BackwardArguments& a) {
  Tile tile(a, blockIdx.x, groups_of(a), tiles_of(a), 0);
  Chunk chunk;
  for_tiles_in_order(a, tile, chunk, [&] { store_zeros(a, tile); }, [&] {
    Carried carried;
    States d_last = {};
    if (tile.is_first()) begin(a, tile, carried, d_last);
    chunk.follow_restarts(d_last);
    tile.carry_on(carried, chunk.ready(), [&](Carried& values) { chunk.follow(values, d_last); });
    chunk.run(a, tile, carried, d_last);
  });
  if (kAllSums) meet();
  store_sums(a, tile, true);
}

RNNC_INLINE void run(const ScanArguments<BackwardArguments>& scan) {
  const BackwardArguments& a = scan.arguments;
  if constexpr (Plan::kSequential) return run_in_order(a);
  const auto copy = [&](const Tile& tile) { Chunk::copy(a, tile); };
  for_tiles(scan, copy, [&](const Tile& tile, const Records& records) {
    store_zeros(a, tile);
    if (!tile.runs()) {
      store_sums(a, tile, false);
      return;
    }
    Chunk chunk;
    chunk.load(a, tile);
    chunk.begin(a, tile.channel);
    Carried begins = {};
    States d_last = {};
    if (tile.number == 0) begin(a, tile, begins, d_last);
    chunk.prepare();
    Map map;
    chunk.summarize(map, d_last);
    Carried carried;
    tile.carry(carried, records, map, begins);
    chunk.run(a, tile, carried, d_last);
    if (kAllSums) meet();
    store_sums(a, tile, true);
  });
}

}  // namespace rnnc::scan_backward
