// Backward kernel of a walk plan: a thread runs all steps of a few units of a batch row backwards,
// with the gradients of their states, and the sums over time, in registers. Chunks of steps are on
// their way through shared memory, as in the forward.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/kernels/walk/read_values.cuh"
#include "lib/kernels/walk/steps.cuh"

namespace rnnc::walk_backward {

constexpr int kUnits = Plan::kUnits;
using Channel = walk::Channel<kUnits>;
using SavedValues = walk::Elements<Plan::kWholeWarps, walk::kRead * kUnits, Plan::kChunk>;
using StateValues = walk::Elements<Plan::kWholeWarps, kUnits, Plan::kChunk>;
using Others = walk::StepInputs<kUnits, Plan::kChunk>;
using Restarts = walk::ChunkRestarts<Plan::kWholeWarps, Plan::kChunk>;
using Resets = walk::StepResets<kUnits, Plan::kChunk, Plan::kWholeWarps>;
// Where a step's parts lie in its slot, in bytes per thread: read values, the gradients of all
// states after the step, the states before it that are read, then as in the forward.
constexpr int kGradientsAt = SavedValues::kBytes;
constexpr int kBeforeAt = kGradientsAt + Cell::kStates * StateValues::kBytes;
constexpr int kReadBytes = states_read(Cell::kStates) * StateValues::kBytes;
constexpr int kOthersAt = kBeforeAt + kReadBytes;
constexpr int kResetsAt = kOthersAt + Others::kBytes;
constexpr int kSlotBytes = walk::kThreads * (kResetsAt + (kResetsAhead ? kReadBytes : 0));
constexpr int kRestartsAt = Plan::kChunk * kSlotBytes;  // behind the slots of a chunk
constexpr int kChunkBytes = kRestartsAt + Restarts::kBytes;
static_assert(Plan::kNumStages * kChunkBytes == Plan::kPlannedShared,
              "the plan counted another size");
static_assert(kResetsAhead || !kResetsLate, "reset values that differ have room in shared memory");

RNNC_INLINE char* part(char* slot, int bytes) { return slot + walk::kThreads * bytes; }
RNNC_INLINE const char* part(const char* slot, int bytes) { return slot + walk::kThreads * bytes; }
RNNC_CONSTEXPR int gradient_at(int s) { return kGradientsAt + s * StateValues::kBytes; }
RNNC_CONSTEXPR int before_at(int s) { return kBeforeAt + states_read(s) * StateValues::kBytes; }
RNNC_CONSTEXPR bool is_read(int s) { return kReads[s]; }

// Copies what steps read, from the last one on.
struct Steps {
  SavedValues saved;
  StateValues before[Cell::kStates], gradient[Cell::kStates];
  Others others;
  Restarts restarts;
  Resets resets;
  bool has_gradient[Cell::kStates];  // at all steps

  RNNC_MEMBER void begin(const BackwardArguments& a, const Channel& channel, bool restarts_first) {
    const TimeOrder& time = channel.time;
    const int last = channel.count - 1;
    const int64 size = a.batch * channel.plane, place = time.at(last);
    const int64 offset = place * size + channel.offset(), back = -time.stride(size);
    const int64 read_size = walk::ReadAgain::step_size(a, channel.plane);
    saved.begin(walk::ReadAgain::at(a, channel, place), -time.stride(read_size));
    repeat<Cell::kStates>([&](int s) {
      has_gradient[s] = a.d_states[s];
      const Element* const d =
          a.d_states[s] + place * a.d_states_time[s] + channel.row * a.d_states_row[s];
      gradient[s].begin(d + channel.unit, -time.stride(a.d_states_time[s]));
      if (!kReads[s]) return;
      before[s].begin(a.states[s] + offset + back, back);
      before[s].begin_first(walk::first_states(a, channel, s, restarts_first));
    });
    others.begin(a, channel, last, -1);
    restarts.begin(a, channel, last, true);
    resets.begin(a, channel, last, -1, is_read);
  }

  // Copies a chunk of steps from t down, as far as there are any.
  RNNC_MEMBER void copy(char* chunk, int t) {
    if (t >= Plan::kChunk) {
      copy_parts(chunk, Plan::kChunk, -1);
    } else {
      copy_parts(chunk, t + 1, t);
    }
    restarts.copy(chunk + kRestartsAt);
    cp_async_commit();
  }
  // Of the first `count` steps; step `one`, if there is such a step, is the first of all.
  RNNC_MEMBER void copy_parts(char* chunk, int count, int one) {
    saved.copy(chunk, kSlotBytes, count);
    repeat<Cell::kStates>([&](int s) {
      if (has_gradient[s]) gradient[s].copy(part(chunk, gradient_at(s)), kSlotBytes, count);
      if (kReads[s]) before[s].copy(part(chunk, before_at(s)), kSlotBytes, count, one);
    });
    others.copy(part(chunk, kOthersAt), kSlotBytes, count);
    resets.copy(part(chunk, kResetsAt), kSlotBytes, count, one, is_read);
  }
};

// What a step reads.
struct StepValues {
  ReadValues others[kUnits];  // the inputs of the cell are behind places for saved values
  real read_values[kUnits][at_least_one(walk::kRead)];
  States before[kUnits], gradient[kUnits], reset[kUnits];  // a gradient at this step alone

  RNNC_MEMBER void read(const char* slot, Steps& steps) {
    real found[at_least_one(walk::kRead * kUnits)];
    steps.saved.read(found, slot);
    repeat<kUnits>([&](int i) {
      repeat<walk::kRead>([&](int k) { read_values[i][k] = found[i * walk::kRead + k]; });
      steps.others.read(others[i], part(slot, kOthersAt), i, Cell::kSaved);
    });
    repeat<Cell::kStates>([&](int s) {
      real values[kUnits];
      repeat<kUnits>([&](int i) { before[i][s] = gradient[i][s] = 0; });
      if (steps.has_gradient[s]) {
        steps.gradient[s].read(values, part(slot, gradient_at(s)));
        repeat<kUnits>([&](int i) { gradient[i][s] = values[i]; });
      }
      if (!kReads[s]) return;
      steps.before[s].read(values, part(slot, before_at(s)));
      repeat<kUnits>([&](int i) { before[i][s] = values[i]; });
    });
    if (kMasked) steps.resets.read(reset, part(slot, kResetsAt), is_read);
  }
};

// Sums of a unit over time. float32 and float64 are summed in parts, as `store_part_sum` says.
struct Sums {
  GradientSums part = {};
  SumOverTime total[at_least_one(Cell::kSums)] = {};

  RNNC_MEMBER void end_part() {
    repeat<Cell::kSums>([&](int k) {
      total[k] += SumOverTime(part[k]);
      part[k] = 0;
    });
  }
};

struct Walk {
  walk::UnitValues param[kUnits];
  Diagonal diagonal[kUnits];
  walk::ReadAgain again[kUnits];
  States after[kUnits], d_state[kUnits];  // the states after the next step, and their gradients
  Sums sums[kUnits];
  SumOverTime d_reset[kUnits][Cell::kStates];  // gradients of reset values, so far
  Steps steps;
  Element *d_wx, *d_no_input;  // of the next step whose results are stored
  int64 stride;                // elements from step to step of a tensor of states

  RNNC_MEMBER void begin(const BackwardArguments& a, const Channel& channel, bool restarts_first) {
    steps.begin(a, channel, restarts_first);
    const int64 size = a.batch * channel.plane;
    const int64 offset = channel.time.at(channel.count - 1) * size + channel.offset();
    stride = -channel.time.stride(size);
    d_wx = a.d_wx + offset * Cell::kInputGates;
    d_no_input = a.d_gates_no_input + offset * kGatesNoInput;
    repeat<kUnits>([&](int i) {
      walk::load_weights(param[i], diagonal[i], a, channel.plane, channel.unit + i);
      walk::fix(param[i]);
      again[i].begin(a, channel.plane, channel.unit + i);
      repeat<Cell::kStates>([&](int s) {
        const bool reads = kReads[s] && channel.count > 0;
        after[i][s] = reads ? to_real(a.states[s][offset + i]) : real(0);
        d_state[i][s] = a.d_last[s] ? to_real(a.d_last[s][channel.offset() + i]) : real(0);
        d_reset[i][s] = 0;
      });
    });
  }

  // Takes n steps from t down, all of a chunk or that of number `first`.
  template <int n>
  RNNC_MEMBER void take(const char* chunk, int first, int t) {
    const char* const slots = chunk + first * kSlotBytes;
    const u32 restarts = steps.restarts.read<n>(chunk + kRestartsAt, first, t);
    StepValues given[n];
    repeat<n>([&](int j) { given[j].read(slots + j * kSlotBytes, steps); });
    Gates d_gate[n][kUnits];
    repeat<n>([&](int j) {
      repeat<kUnits>([&](int i) { step(i, given[j], restarts >> j & 1, d_gate[j][i]); });
    });
    repeat<n>([&](int j) { store(d_gate[j]); });
  }
  // Takes a step of a unit.
  RNNC_MEMBER void step(int i, const StepValues& given, bool restarts, Gates& d_gate) {
    States before;
    Params d_param;
    repeat<Cell::kStates>([&](int s) {
      const bool replaced = kMasked && kReads[s] && restarts;
      before[s] = replaced ? given.reset[i][s] : given.before[i][s];
      d_state[i][s] += given.gradient[i][s];
    });
    ReadValues values;
    assign(values, given.others[i]);
    again[i].finish(values, given.read_values[i], diagonal[i], before);
    apply_pointwise_backward(values, before, after[i], param[i], d_state[i], d_gate,
                             d_param);
    add_diagonal_gradient(d_state[i], diagonal[i], d_gate);
    add_to_sums(sums[i].part, d_gate, d_param, before);
    if (kMasked) end_gradient(i, restarts);
    repeat<Cell::kStates>([&](int s) { after[i][s] = given.before[i][s]; });
  }
  // The gradient of the states before a step is that of reset values if the row restarts there.
  RNNC_MEMBER void end_gradient(int i, bool restarts) {
    repeat<Cell::kStates>([&](int s) {
      d_reset[i][s] += SumOverTime(restarts ? d_state[i][s] : real(0));
      d_state[i][s] = restarts ? real(0) : d_state[i][s];
    });
  }
  // Stores the gradients of a step's gates, and goes on to the next step.
  RNNC_MEMBER void store(const Gates (&d_gate)[kUnits]) {
    real inputs[at_least_one(kUnits * Cell::kInputGates)];
    real others[at_least_one(kUnits * kGatesNoInput)];
    repeat<kUnits>([&](int i) {
      repeat<Cell::kGates>([&](int g) {
        const int other = i * kGatesNoInput + g - Cell::kInputGates;
        (g < Cell::kInputGates ? inputs[i * Cell::kInputGates + g] : others[other]) = d_gate[i][g];
      });
    });
    walk::store_values<kUnits * Cell::kInputGates>(d_wx, inputs);
    walk::store_values<kUnits * kGatesNoInput>(d_no_input, others);
    d_wx += stride * Cell::kInputGates;
    d_no_input += stride * kGatesNoInput;
  }
};

// Zeros in padding, which no thread runs.
RNNC_INLINE void store_zeros(const BackwardArguments& a, const Channel& channel) {
#pragma unroll 1
  for (int64 t = channel.count; t < a.steps; ++t) {
    const int64 offset = t * a.batch * channel.plane + channel.offset();
    repeat<kUnits>([&](int i) { PackedGates(Gates{}).store(a, offset + i); });
  }
}

RNNC_INLINE void run(const BackwardArguments& a) {
  const Channel channel(a);
  if (!channel.exists) return;
  const bool restarts_first = walk::restarts_first(a, channel);
  Walk thread;
  thread.begin(a, channel, restarts_first);
  int copied = channel.count - 1, stage = 0, t = channel.count - 1, taken = 0;
#pragma unroll 1
  for (int i = 0; i < Plan::kNumStages; ++i, copied -= Plan::kChunk) {
    thread.steps.copy(shared + i * kChunkBytes, copied);
  }
#pragma unroll 1
  for (; t + 1 >= Plan::kChunk; t -= Plan::kChunk, copied -= Plan::kChunk) {
    char* const chunk = shared + stage * kChunkBytes;
    cp_async_wait<Plan::kNumStages - 1>();
    walk::meet<Plan::kWholeWarps>();
    thread.take<Plan::kChunk>(chunk, 0, t);
    walk::meet<Plan::kWholeWarps>();
    thread.steps.copy(chunk, copied);
    stage = stage + 1 < Plan::kNumStages ? stage + 1 : 0;
    taken += Plan::kChunk;
    if (kSumsInParts && taken % kPartSteps == 0) {
      repeat<kUnits>([&](int i) { thread.sums[i].end_part(); });
    }
  }
  cp_async_wait<0>();
  walk::meet<Plan::kWholeWarps>();
  const char* const chunk = shared + stage * kChunkBytes;
#pragma unroll 1
  for (int j = 0; t >= 0; --t, ++j) thread.take<1>(chunk, j, t);

  repeat<kUnits>([&](int i) {
    if (kMasked) thread.end_gradient(i, restarts_first);
    thread.sums[i].end_part();
    const int64 offset = channel.offset() + i;
    repeat<Cell::kStates>([&](int s) {
      a.d_initial_states[s][offset] = to_element<Element>(thread.d_state[i][s]);
      if (kMasked && a.d_reset_to[s]) a.d_reset_to[s][offset] = thread.d_reset[i][s];
    });
    repeat<Cell::kSums>([&](int k) {
      a.sums[(channel.row * Cell::kSums + k) * channel.plane + channel.unit + i] =
          thread.sums[i].total[k];
    });
  });
  if (kMasked) store_zeros(a, channel);
}

}  // namespace rnnc::walk_backward
