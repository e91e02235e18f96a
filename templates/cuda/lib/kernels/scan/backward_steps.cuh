// Steps of a thread in a scan's backward, from the last one on: what they read, and the adjoint of
// each. What does not wait for gradients of states is in registers before them.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/kernels/scan/staged.cuh"
#include "lib/kernels/scan/step_inputs.cuh"
#include "lib/kernels/walk/read_values.cuh"

namespace rnnc::scan_backward {

using namespace scan;

constexpr int kSteps = Plan::kChunk;
constexpr bool kWide = sizeof(Factor) > sizeof(real);
// Sums of a unit over time, and of the gradients of reset values.
constexpr int kResetSums = kMasked ? Cell::kStates : 0;
constexpr int kAllSums = Cell::kSums + kResetSums;
struct SharedSums {
  SumOverTime sum[at_least_one(kAllSums)][Plan::kWarps][kLanes];
};
constexpr int kSumsAt = round_up(static_cast<int>(sizeof(Shared)), 8);
// What a warp's steps read, from the last one on: values, and of each state that has them gradients
// and the values after each step, then those before the last.
using ReadRows = Rows<walk::kRead>;
using GradientRows = Rows<1>;
using StateRows = Rows<1, 1>;
constexpr int kGradientsAt = ReadRows::kBytes;
constexpr int kStatesAt = kGradientsAt + Cell::kStates * GradientRows::kBytes;
constexpr int kRestartsAt = kStatesAt + states_read(Cell::kStates) * StateRows::kBytes;
constexpr int kWarpBytes = kRestartsAt + Restarts::kBytes;
constexpr int kRowsAt = round_up(kSumsAt + (kAllSums ? sizeof(SharedSums) : 0), 16);
static_assert(kRowsAt + 2 * Plan::kWarps * kWarpBytes == kPlannedShared,
              "the plan counted another size");
RNNC_CONSTEXPR int gradients_at(int s) { return kGradientsAt + s * GradientRows::kBytes; }
RNNC_CONSTEXPR int states_at(int s) { return kStatesAt + states_read(s) * StateRows::kBytes; }

#ifdef RNNC_UNWEIGHTED
constexpr int kOthers = Cell::kUnweighted;
#else
constexpr int kOthers = 0;
#endif
RNNC_INLINE bool is_read(int s) { return kReads[s]; }

struct Steps {
  walk::UnitValues param;
  Diagonal diagonal;
  walk::ReadAgain again;
  char* rows;  // in shared memory: what the steps read
  int lane;
  bool given[Cell::kStates];  // gradients at all steps
  real other[kSteps][at_least_one(kOthers)];
  // The same in registers. Of states those after each step; the last one is before it.
  static constexpr bool kInRegisters = !Plan::kWholeWarps;
  Vec<Element, walk::kRead> read[kInRegisters ? kSteps : 1];
  Vec<Element, 1> gradient[kInRegisters ? kSteps : 1][Cell::kStates];
  Vec<Element, 1> state[kInRegisters ? kSteps + 1 : 1][Cell::kStates];
  Early early[kSteps];
  Restarts restarts;
  u32 zero;
  Resets resets;
  States late[kSteps];

  // What is the same for all steps of the channel.
  RNNC_MEMBER void begin(const BackwardArguments& a, const Channel& channel) {
    resets.begin(a, channel, is_read);
    walk::load_weights(param, diagonal, a, channel.plane, channel.unit);
    walk::fix(param);
    again.begin(a, channel.plane, channel.unit);
  }
  RNNC_MEMBER void load(const BackwardArguments& a, const Tile& tile) {
    if constexpr (Plan::kWholeWarps) {
      rows = area(tile);
      lane = tile.lane;
      repeat<Cell::kStates>([&](int s) { given[s] = a.d_states[s]; });
    } else {
      tile.in_parts([&](auto all) { load_steps<all.value>(a, tile); });
    }
    if (kOthers) load_others(a, tile);
    load_restarts(a, tile);
    if (tile.has_last()) load_first(a, tile);
  }
  // What the first step in memory begins from stands in the place of the states before it.
  RNNC_MEMBER void load_first(const BackwardArguments& a, const Tile& tile) {
    const bool restarts_first = walk::restarts_first(a, tile.channel);
    repeat<Cell::kStates>([&](int s) {
      if (!kReads[s]) return;
      Vec<Element, 1> begin;
      begin.load(walk::first_states(a, tile.channel, s, restarts_first));
      if constexpr (!kInRegisters) {
        const int row = tile.count - tile.first;
        begin.write(rows + states_at(s) + StateRows::at(row, lane));
        return;
      }
      repeat<kSteps>([&](int j) {
        // NOTE: word by word, or the compiler keeps all states in memory.
        for (int k = 0; k < begin.kWords; ++k) {
          u32 word = state[j + 1][s].words[k];
          word = tile.is_last(j) ? begin.words[k] : word;
          state[j + 1][s].words[k] = word;
        }
      });
    });
  }
  // Which steps the row restarts before. The first of all is left out: `first_states` knows it.
  RNNC_MEMBER void load_restarts(const BackwardArguments& a, const Tile& tile) {
    zero = tile.zero;
    if (!kMasked) return;
    const Channel& channel = tile.channel;
    const int last = tile.count - 1 - tile.first;
    restarts.read(area(tile) + kRestartsAt, a, tile, static_cast<int>(channel.time.at(last)), true,
                  last);
    if (!kResetsLate) return;
    repeat<kSteps>([&](int j) {
      const int t = tile.count - 1 - tile.first - j;
      repeat<Cell::kStates>([&](int s) { late[j][s] = 0; });
      if (restarts.bits >> j & 1) Resets::load(late[j], a, channel, channel.time.at(t), is_read);
    });
  }
  // NOTE: what lies before the first step in memory is not read, unless it is the step after it.
  template <bool all>
  RNNC_MEMBER void load_steps(const BackwardArguments& a, const Tile& tile) {
    const Channel& channel = tile.channel;
    const TimeOrder& time = channel.time;
    const int64 size = a.batch * channel.plane, stride = -time.stride(size);
    const int last = tile.count - 1 - tile.first;  // the warp's first step
    const int64 begin = time.at(last);
    int64 offset = begin * size + channel.offset();
    repeat<Cell::kStates>([&](int s) {
      const Element* from = a.d_states[s] + begin * a.d_states_time[s] +
                            channel.row * a.d_states_row[s] + channel.unit;
      const bool given = a.d_states[s];
      repeat<kSteps>([&](int j) {
        gradient[j][s] = {};
        if (given && (all || last >= j)) gradient[j][s].load(from);
        from -= time.stride(a.d_states_time[s]);
      });
    });
    const Element* from = walk::ReadAgain::at(a, channel, begin);
    const int64 read_stride = time.stride(walk::ReadAgain::step_size(a, channel.plane));
    repeat<kSteps + 1>([&](int j) {
      const int t = last - j;
      repeat<Cell::kStates>([&](int s) {
        if (!kReads[s]) return;
        const bool stored = (all && j < kSteps) || t >= 0;
        if (!stored) state[j][s] = {};
        if (stored) state[j][s].load(a.states[s] + offset);
      });
      if (j == kSteps) return;
      const bool own = all || t >= 0;
      if (!own) read[j] = {};
      if (own) read[j].load(from);
      from -= read_stride;
      offset += stride;
    });
  }
  RNNC_MEMBER void load_others(const BackwardArguments& a, const Tile& tile) {
    repeat<kSteps>([&](int j) {
      const int t = tile.count - 1 - tile.first - j;
      repeat<kOthers>([&](int k) { other[j][k] = 0; });
      const int64 place = t >= 0 ? tile.channel.time.at(t) : 0;
      if (t >= 0) load_unweighted(other[j], 0, a, tile.channel, place);
    });
  }
  static RNNC_MEMBER char* area(const Tile& tile) {
    return shared + kRowsAt + (tile.turn * Plan::kWarps + tile.warp) * kWarpBytes;
  }
  // Copies what the steps read.
  static RNNC_MEMBER void copy(const BackwardArguments& a, const Tile& tile) {
    const Channel& channel = tile.channel;
    const TimeOrder& time = channel.time;
    const int64 size = a.batch * channel.plane;
    const int count = tile.count - tile.warp_first(), lane = tile.lane, place = lane % kChannels;
    const int64 begin = time.at(count > 0 ? count - 1 : 0);
    char* const to = area(tile);
    const int64 read_size = walk::ReadAgain::step_size(a, channel.plane);
    ReadRows::copy(to, walk::ReadAgain::at(a, channel, begin) - place * walk::kRead,
                   -time.stride(read_size), count, lane);
    repeat<Cell::kStates>([&](int s) {
      const Element* const d = a.d_states[s] + begin * a.d_states_time[s] +
                               channel.row * a.d_states_row[s] + channel.unit - place;
      if (a.d_states[s]) {
        GradientRows::copy(to + gradients_at(s), d, -time.stride(a.d_states_time[s]), count, lane);
      }
      if (!kReads[s]) return;
      const Element* const state = a.states[s] + begin * size + channel.offset() - place;
      StateRows::copy(to + states_at(s), state, -time.stride(size), count, lane);
    });
    Restarts::copy(to + kRestartsAt, a, tile, static_cast<int>(time.at(count - 1)), true);
    cp_async_commit();
  }
  RNNC_MEMBER Vec<Element, 1> state_of(int j, int s) const {
    if constexpr (kInRegisters) return state[j][s];
    Vec<Element, 1> found;
    StateRows::read(found, rows + states_at(s), j, lane);
    return found;
  }
  RNNC_MEMBER void states_of(u32 bits, int j, States& before, States& after) const {
    repeat<Cell::kStates>([&](int s) {
      before[s] = after[s] = 0;
      if (!kReads[s]) return;
      after[s] = state_of(j, s)[0];
      before[s] = state_of(j + 1, s)[0];
      if (!kMasked) return;
      const real to = kResetsLate ? late[j][s] : resets.constant[s];
      before[s] = bits >> j & 1 ? to : before[s];
    });
  }
  RNNC_MEMBER void values_of(int j, const States& before, ReadValues& values) const {
    real found[at_least_one(walk::kRead)];
    Vec<Element, walk::kRead> packed;
    if constexpr (kInRegisters) {
      packed = read[j];
    } else {
      ReadRows::read(packed, rows, j, lane);
    }
    repeat<walk::kRead>([&](int k) { found[k] = packed[k]; });
    again.finish(values, found, diagonal, before);
    repeat<kOthers>([&](int k) { values[Cell::kSaved + k] = other[j][k]; });
  }
  RNNC_MEMBER void prepare() {
    wait_for_loads();
    const u32 bits = restarts.of_pass(zero);
    repeat<kSteps>([&](int j) {
      ReadValues values;
      States before, after;
      states_of(bits, j, before, after);
      values_of(j, before, values);
      apply_early(values, before, after, param, early[j]);
    });
  }
  // The adjoint of a step, without the gradients of its own results.
  RNNC_MEMBER void step(u32 bits, int j, States& d_state, Gates& d_gate,
                        Params& d_param) const {
    ReadValues values;
    States before, after;
    states_of(bits, j, before, after);
    values_of(j, before, values);
    apply_late(values, before, after, param, early[j], d_state, d_gate, d_param);
    add_diagonal_gradient(d_state, diagonal, d_gate);
  }
  RNNC_MEMBER void add_gradient(int j, States& d_state) const {
    repeat<Cell::kStates>([&](int s) {
      if constexpr (kInRegisters) {
        d_state[s] += gradient[j][s][0];
      } else if (given[s]) {
        Vec<Element, 1> found;
        GradientRows::read(found, rows + gradients_at(s), j, lane);
        d_state[s] += found[0];
      }
    });
  }
};

}  // namespace rnnc::scan_backward
