// Forward kernel of a walk plan: a thread runs all steps of a few units of a batch row, with their
// states in registers. Such a cell has no dense matrix, so nothing passes between threads.
//
// Steps are taken in chunks. What a chunk reads is in registers before its first step, and what it
// writes leaves after its last one. So what does not depend on the states is computed ahead of the
// chain from state to state, as the compiler likes. Several chunks are on their way through shared
// memory: a chunk takes less time than a round trip to memory.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/kernels/walk/steps.cuh"

namespace rnnc::walk_forward {

using walk::store_values;

constexpr int kUnits = Plan::kUnits;
using Channel = walk::Channel<kUnits>;
using Inputs = walk::Elements<Plan::kWholeWarps, Cell::kInputGates * kUnits, Plan::kChunk>;
using Others = walk::StepInputs<kUnits, Plan::kChunk>;
using Restarts = walk::ChunkRestarts<Plan::kWholeWarps, Plan::kChunk>;
using Resets = walk::StepResets<kUnits, Plan::kChunk, Plan::kWholeWarps>;
// Where a step's parts lie in its slot, in bytes per thread.
constexpr int kOthersAt = Inputs::kBytes;
constexpr int kResetsAt = kOthersAt + Others::kBytes;
constexpr int kResetBytes = kResetsAhead ? Cell::kStates * Resets::Values::kBytes : 0;
constexpr int kSlotBytes = walk::kThreads * (kResetsAt + kResetBytes);
constexpr int kRestartsAt = Plan::kChunk * kSlotBytes;  // behind the slots of a chunk
constexpr int kChunkBytes = kRestartsAt + Restarts::kBytes;
static_assert(Plan::kNumStages * kChunkBytes == Plan::kPlannedShared,
              "the plan counted another size");
static_assert(kResetsAhead || !kResetsLate, "reset values that differ have room in shared memory");

// Copies what steps read.
struct Steps {
  Inputs input;
  Others others;
  Restarts restarts;
  Resets resets;

  RNNC_MEMBER void begin(const ForwardArguments& a, const Channel& channel) {
    const TimeOrder& time = channel.time;
    const Element* const first = a.wx + time.at(0) * a.wx_time + channel.row * a.wx_row;
    input.begin(first + channel.unit * Cell::kInputGates, time.stride(a.wx_time));
    others.begin(a, channel, 0, 1);
    restarts.begin(a, channel, 0, false);
    resets.begin(a, channel, 0, 1, is_needed);
  }
  static RNNC_MEMBER bool is_needed(int) { return true; }
  static RNNC_MEMBER char* part(char* slot, int bytes) { return slot + walk::kThreads * bytes; }
  static RNNC_MEMBER const char* part(const char* slot, int bytes) {
    return slot + walk::kThreads * bytes;
  }

  // Copies a chunk of steps from t on, as far as there are any.
  RNNC_MEMBER void copy(char* chunk, int t, int count) {
    if (t + Plan::kChunk <= count && !(kMasked && t == 0)) {
      copy_parts(chunk, Plan::kChunk, -1);
    } else {
      copy_parts(chunk, count - t, -t);
    }
    restarts.copy(chunk + kRestartsAt);
    cp_async_commit();
  }
  // Of the first `count` steps; step `one`, if there is such a step, is the first of all.
  RNNC_MEMBER void copy_parts(char* chunk, int count, int one) {
    input.copy(chunk, kSlotBytes, count);
    others.copy(part(chunk, kOthersAt), kSlotBytes, count);
    resets.copy(part(chunk, kResetsAt), kSlotBytes, count, one, is_needed);
  }
};

struct Walk {
  Gates bias[kUnits];
  walk::UnitValues param[kUnits];
  Diagonal diagonal[kUnits];
  States state[kUnits];
  Steps steps;
  bool stores[Cell::kStates], saves;  // which results are stored
  Element *states[Cell::kStates], *saved;  // those of the next step
  int64 stride;  // elements from step to step of a tensor of states

  RNNC_MEMBER void begin(const ForwardArguments& a, const Channel& channel) {
    steps.begin(a, channel);
    stride = channel.time.stride(a.batch * channel.plane);
    const int64 offset = channel.time.at(0) * a.batch * channel.plane + channel.offset();
    saves = Plan::kSaves && Cell::kSaved && a.saved;
    saved = a.saved + offset * Cell::kSaved;
    const bool restarts = walk::restarts_first(a, channel);
    repeat<Cell::kStates>([&](int s) {
      stores[s] = a.states[s];
      states[s] = a.states[s] + offset;
      const Element* const first = walk::first_states(a, channel, s, restarts);
      repeat<kUnits>([&](int i) { state[i][s] = to_real(first[i]); });
    });
    repeat<kUnits>([&](int i) {
      load_bias(bias[i], a, channel.plane, channel.unit + i);
      walk::load_weights(param[i], diagonal[i], a, channel.plane, channel.unit + i);
      walk::fix(param[i]);
    });
  }

  // Takes n steps from t on, all of a chunk or that of number `first`.
  template <int n>
  RNNC_MEMBER void take(const char* chunk, int first, int t) {
    const char* const slots = chunk + first * kSlotBytes;
    const u32 restarts = steps.restarts.read<n>(chunk + kRestartsAt, first, -t);
    Gates given[n][kUnits];
    States reset[n][kUnits];
    repeat<n>([&](int j) { read(slots + j * kSlotBytes, given[j], reset[j]); });
    States now[kUnits], results[n][kUnits];
    Saved kept[n][kUnits];
    with_sigmoid<false>([&](auto& sigmoid) {
      repeat<kUnits>([&](int i) { assign(now[i], state[i]); });
      repeat<n>([&](int j) {
        repeat<kUnits>([&](int i) {
          if (kMasked) {
            const bool begins = restarts >> j & 1;
            repeat<Cell::kStates>(
                [&](int s) { now[i][s] = begins ? reset[j][i][s] : now[i][s]; });
          }
          Gates gate;
          assign(gate, given[j][i]);
          add_diagonal(gate, diagonal[i], now[i]);
          apply_pointwise_forward(gate, now[i], param[i], results[j][i], kept[j][i], sigmoid);
          assign(now[i], results[j][i]);
        });
      });
    });
    repeat<kUnits>([&](int i) { assign(state[i], now[i]); });
    store(results, kept);
  }

  // Reads the gates from bias and input of a step, and what the row may restart from before it.
  RNNC_MEMBER void read(const char* slot, Gates (&gate)[kUnits], States (&reset)[kUnits]) {
    real input[at_least_one(Cell::kInputGates * kUnits)];
    steps.input.read(input, slot);
    if (kMasked) steps.resets.read(reset, Steps::part(slot, kResetsAt), Steps::is_needed);
    repeat<kUnits>([&](int i) {
      repeat<Cell::kGates>([&](int g) {
        gate[i][g] = g < Cell::kInputGates ? input[i * Cell::kInputGates + g] : real(0);
        if (walk::has_bias(g)) gate[i][g] += bias[i][g];
      });
      steps.others.read(gate[i], Steps::part(slot, kOthersAt), i,
                        Cell::kGates - Others::kCount);
    });
  }
  // Stores the results of steps, and goes on behind them. NOTE: a branch per tensor, not per step.
  template <int n>
  RNNC_MEMBER void store(const States (&results)[n][kUnits], const Saved (&kept)[n][kUnits]) {
    repeat<Cell::kStates>([&](int s) {
      if (!stores[s]) return;
      repeat<n>([&](int j) {
        real values[kUnits];
        repeat<kUnits>([&](int i) { values[i] = results[j][i][s]; });
        store_values<kUnits>(states[s], values);
        states[s] += stride;
      });
    });
    if (!saves) return;
    repeat<n>([&](int j) {
      real values[at_least_one(kUnits * Cell::kSaved)];
      repeat<kUnits>([&](int i) {
        repeat<Cell::kSaved>([&](int k) { values[i * Cell::kSaved + k] = kept[j][i][k]; });
      });
      store_values<kUnits * Cell::kSaved>(saved, values);
      saved += stride * Cell::kSaved;
    });
  }
};

RNNC_INLINE void run(const ForwardArguments& a) {
  const Channel channel(a);
  if (!channel.exists) return;
  Walk thread;
  thread.begin(a, channel);
  int copied = 0, stage = 0, t = 0;
#pragma unroll 1
  for (; copied < Plan::kNumStages * Plan::kChunk; copied += Plan::kChunk) {
    thread.steps.copy(shared + copied / Plan::kChunk * kChunkBytes, copied, channel.count);
  }
#pragma unroll 1
  for (; t + Plan::kChunk <= channel.count; t += Plan::kChunk, copied += Plan::kChunk) {
    char* const chunk = shared + stage * kChunkBytes;
    cp_async_wait<Plan::kNumStages - 1>();
    walk::meet<Plan::kWholeWarps>();
    thread.take<Plan::kChunk>(chunk, 0, t);
    walk::meet<Plan::kWholeWarps>();
    thread.steps.copy(chunk, copied, channel.count);
    stage = stage + 1 < Plan::kNumStages ? stage + 1 : 0;
  }
  cp_async_wait<0>();
  walk::meet<Plan::kWholeWarps>();
  const char* const chunk = shared + stage * kChunkBytes;
#pragma unroll 1
  for (int j = 0; t < channel.count; ++t, ++j) thread.take<1>(chunk, j, t);

  repeat<Cell::kStates>([&](int s) {
    repeat<kUnits>([&](int i) {
      a.last[s][channel.offset() + i] = to_element<Element>(thread.state[i][s]);
    });
    if (!kMasked || !a.states[s]) return;
#pragma unroll 1
    for (int64 step = channel.count; step < a.steps; ++step) {
      Element* const padding = a.states[s] + step * a.batch * channel.plane + channel.offset();
      repeat<kUnits>([&](int i) { padding[i] = to_element<Element>(real(0)); });
    }
  });
}

}  // namespace rnnc::walk_forward
