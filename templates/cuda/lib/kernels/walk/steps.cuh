// What the steps of both directions read besides inputs and states: the inputs of the cell that no
// weight multiplies, and what a row restarts from.
#pragma once

#include "lib/kernels/walk/restarts.cuh"
#include "lib/kernels/walk/warp_elements.cuh"

namespace rnnc::walk {

// Counts steps on (by = 1) or back (by = -1).
RNNC_INLINE int64 towards(const TimeOrder& time, int by, int64 step_size) {
  return by * time.stride(step_size);
}

#ifdef RNNC_UNWEIGHTED

// The values of `units` units, one by one: a stride may be 0.
template <int units, int chunk>
struct StepInputs {
  using Value = StepElements<1, chunk>;
  static constexpr int kCount = Cell::kUnweighted;
  static constexpr int kBytes = kCount * units * Value::kBytes;
  Value value[kCount][units];

  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, const Channel<units>& channel, int64 t, int by) {
    const UnweightedArguments& given = a.unweighted;
    repeat<Cell::kUnweighted>([&](int k) {
      repeat<units>([&](int i) {
        const Element* const first = given.tensor[k] + channel.time.at(t) * given.time[k] +
                                     channel.row * given.row[k] + channel.head * given.head[k] +
                                     (channel.head_unit + i) * given.unit[k];
        value[k][i].begin(first, towards(channel.time, by, given.time[k]));
      });
    });
  }
  static RNNC_MEMBER int at(int k, int i) { return (k * units + i) * Value::kBytes * kThreads; }
  RNNC_MEMBER void copy(char* area, int pitch, int count) {
    repeat<Cell::kUnweighted>([&](int k) {
      repeat<units>([&](int i) { value[k][i].copy(area + at(k, i), pitch, count); });
    });
  }
  // Writes the values of unit i from values[first] on.
  template <int n>
  RNNC_MEMBER void read(real (&values)[n], const char* slot, int i, int first) {
    repeat<Cell::kUnweighted>([&](int k) {
      real found[1];
      value[k][i].read(found, slot + at(k, i));
      values[first + k] = found[0];
    });
  }
};

#else

template <int units, int chunk>
struct StepInputs {
  static constexpr int kCount = 0, kBytes = 0;
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments&, const Channel<units>&, int64, int) {}
  RNNC_MEMBER void copy(char*, int, int) {}
  template <int n>
  RNNC_MEMBER void read(real (&)[n], const char*, int, int) {}
};

#endif

// What the row restarts from: values that are the same for all steps, or are copied with each step.
// Of each state for which `needed[s]` is true.
template <int units, int chunk, bool whole_warps>
struct StepResets {
  using Values = Elements<whole_warps, units, chunk>;
  States constant[units];
  Values ahead[Cell::kStates];

  template <typename Arguments, typename Needed>
  RNNC_MEMBER void begin(const Arguments& a, const Channel<units>& channel, int64 t, int by,
                         const Needed& needed) {
    if (!kMasked) return;
    repeat<Cell::kStates>([&](int s) {
      if (!needed(s)) return;
      const Element* const first = reset_value(a, s, kResetsAhead ? channel.time.at(t) : 0,
                                               channel.row, channel.unit, channel.time.reversed);
      if (kResetsAhead) {
        ahead[s].begin(first, towards(channel.time, by, a.masks.reset_time[s]));
        ahead[s].begin_first(a.initial_states[s] + channel.offset());
      } else {
        repeat<units>([&](int i) { constant[i][s] = to_real(first[i]); });
      }
    });
  }
  // There may be no value before the first of all steps, and none is read: it gets another one.
  template <typename Needed>
  RNNC_MEMBER void copy(char* area, int pitch, int count, int one, const Needed& needed) {
    if (!kResetsAhead) return;
    int part = 0;
    repeat<Cell::kStates>([&](int s) {
      if (!needed(s)) return;
      ahead[s].copy(area + part++ * (Values::kBytes * kThreads), pitch, count, one);
    });
  }
  template <typename Needed>
  RNNC_MEMBER void read(States (&values)[units], const char* slot, const Needed& needed) {
    int part = 0;
    repeat<Cell::kStates>([&](int s) {
      if (!needed(s)) return;
      real found[units];
      if (kResetsAhead) ahead[s].read(found, slot + part++ * (Values::kBytes * kThreads));
      repeat<units>([&](int i) { values[i][s] = kResetsAhead ? found[i] : constant[i][s]; });
    });
  }
};

}  // namespace rnnc::walk
