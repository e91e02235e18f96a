// The kernels between two matrix products of the library: one thread a unit and batch row.
//
// Steps are captured in graphs, whose nodes cannot change. So what differs from call to call, the
// arguments and the number of the step, lies in device memory: `begin` writes it, `advance` counts
// the steps of a chunk. The states stay in `real` from step to step.
#pragma once

namespace rnnc {

// Buffers that live as long as the graphs. B batch rows, N heads, D units a head; [N, B, D] is how
// the products of all heads are one batched product.
struct Work {
  u32 batch, heads, dim;
  void* arguments;                        // ForwardArguments or BackwardArguments
  int* first_step;                        // of the chunk
  real* states[kStates];                  // [B, N, D]: the states, or their gradients
  Element* factors[at_least_one(kSources)];  // [N, B, D], or [N, pairs, B, D] of gradients
  real* products[at_least_one(kSources)];    // [N, B, D, pairs], or [N, pairs, B, D] of gradients
  real* sums;                             // [kSums, B, N, D]
};

template <typename Arguments>
struct Begin {
  Arguments arguments;
  Work work;
};

struct Step {
  Work work;
  int64 number;  // of the step in its chunk
};

// What `begin` wrote, and the step of a node. NOTE: volatile, so that all of it is on its way at once:
// field by field, where it is used, each would cost the latency of L2.
template <typename Arguments>
struct Call {
  Arguments a;
  int64 step;

  RNNC_MEMBER Call(const Work& work, int64 number) {
    constexpr int words = sizeof(Arguments) / 8;
    unsigned long long word[words];
    int first_step;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(first_step) : "l"(work.first_step));
#pragma unroll
    for (int i = 0; i < words; ++i) {
      asm volatile("ld.global.u64 %0, [%1];"
                   : "=l"(word[i])
                   : "l"(static_cast<const char*>(work.arguments) + 8 * i));
    }
    memcpy(&a, word, sizeof a);
    step = first_step + number;
  }
};

// What a thread works on: unit d of head n in batch row b.
struct Place {
  u32 n, d, b;
  u32 unit;       // in [N, D]
  u32 row;        // in [B, N, D]
  int64 column;   // in [N, B, D]
  bool given;

  // From sizes that come by value, in 32 bits: a division of 64 takes as long as the rest of a step.
  RNNC_MEMBER explicit Place(const Work& work) {
    const u32 plane = work.heads * work.dim;
    row = blockIdx.x * blockDim.x + threadIdx.x;
    b = row / plane;
    unit = row - b * plane;
    n = unit / work.dim;
    d = unit - n * work.dim;
    column = (static_cast<int64>(n) * work.batch + b) * work.dim + d;
    given = b < work.batch;
  }
};

// Asks for data that the next step reads.
RNNC_INLINE void prefetch(const Element* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Where the gradient of a pair's gate lies in [N, pairs, B, D], and what the product makes of it.
RNNC_INLINE int64 pair_place(const Work& work, const Place& place, int pairs, int pair) {
  const int64 column = static_cast<int64>(place.n * pairs + pair) * work.batch + place.b;
  return column * work.dim + place.d;
}

// The gradient of a source that the step after has sent back: each pair's product adds to it.
RNNC_INLINE real sent_back(const Work& work, const Place& place, int source) {
  real sum = 0;
#pragma unroll
  for (int i = 0; i < kSourcePairs[source]; ++i) {
    sum += work.products[source][pair_place(work, place, kSourcePairs[source], i)];
  }
  return sum;
}

RNNC_INLINE void forward_begin(const ForwardArguments& a, const Work& work) {
  const Place place(work);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *static_cast<ForwardArguments*>(work.arguments) = a;
    *work.first_step = 0;
  }
  if (!place.given) return;
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    const Element value = a.initial[s][place.row];
    work.states[s][place.row] = to_real(value);
    if (a.steps == 0) a.last[s][place.row] = value;
  }
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    work.factors[source][place.column] = a.initial[kSourceState[source]][place.row];
  }
}

RNNC_INLINE void forward_step(const Work& work, int64 number) {
  const Place place(work);
  if (!place.given) return;
  real gate[at_least_one(kGates)] = {}, state[kStates], param[at_least_one(kParams)];
  real kept[at_least_one(kSaved)];
  // What lies in buffers of its own is on its way while the arguments come.
#pragma unroll
  for (int s = 0; s < kStates; ++s) state[s] = work.states[s][place.row];
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    const real* product = work.products[source] + place.column * kSourcePairs[source];
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      gate[kPairGate[kSourceFirstPair[source] + i]] += product[i];
    }
  }
  const Call<ForwardArguments> call(work, number);
  const ForwardArguments& a = call.a;
  const int64 t = call.step;
  if (t >= a.steps) return;

  const int64 unit = place.unit, plane = work.heads * work.dim;
  Row<Element, kInputGates> x;
  const Element* wx = a.wx + t * a.wx_time + place.b * a.wx_row + unit * kInputGates;
  x.load(wx);
  if (t + 1 < a.steps) prefetch(wx + a.wx_time);
#pragma unroll
  for (int i = 0; i < kParams; ++i) param[i] = to_real(a.params[i][unit]);
#pragma unroll
  for (int i = 0; i < kBiasGates; ++i) {
    if (a.bias) gate[kBias[i]] += to_real(a.bias[i * plane + unit]);
  }
#pragma unroll
  for (int g = 0; g < kInputGates; ++g) gate[g] += x[g];
#pragma unroll
  for (int i = 0; i < kDiagonalPairs; ++i) {
    gate[kDiagonalGate[i]] += to_real(a.R_diag[i * plane + unit]) * state[kDiagonalSource[i]];
  }
  step_forward(gate, state, param, kept);

  const int64 here = t * work.batch * plane + place.row;
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    work.states[s][place.row] = state[s];
    const Element value = to_element<Element>(state[s]);
    if (a.states[s]) a.states[s][here] = value;
    if (t == a.steps - 1) a.last[s][place.row] = value;
  }
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    work.factors[source][place.column] = to_element<Element>(state[kSourceState[source]]);
  }
  if (kSaved && a.kept) {
    Row<Element, kSaved> row;
    row.set(kept);
    row.store(a.kept + here * kSaved);
  }
}

RNNC_INLINE void backward_begin(const BackwardArguments& a, const Work& work) {
  const Place place(work);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *static_cast<BackwardArguments*>(work.arguments) = a;
    *work.first_step = 0;
  }
  if (!place.given) return;
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    work.states[s][place.row] = a.d_last[s] ? to_real(a.d_last[s][place.row]) : real(0);
  }
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      work.products[source][pair_place(work, place, kSourcePairs[source], i)] = 0;
    }
  }
  const int64 size = static_cast<int64>(work.batch) * work.heads * work.dim;
#pragma unroll
  for (int i = 0; i < kSums; ++i) work.sums[i * size + place.row] = 0;
}

RNNC_INLINE void backward_step(const Work& work, int64 number) {
  const Place place(work);
  if (!place.given) return;
  real kept[at_least_one(kSaved)], before[kStates], after[kStates], param[at_least_one(kParams)];
  real d_state[kStates], d_gate[at_least_one(kGates)], d_param[at_least_one(kParams)];
#pragma unroll
  for (int s = 0; s < kStates; ++s) d_state[s] = work.states[s][place.row];
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    d_state[kSourceState[source]] += sent_back(work, place, source);
  }
  const Call<BackwardArguments> call(work, number);
  const BackwardArguments& a = call.a;
  const int64 t = a.steps - 1 - call.step;
  if (t < 0) return;

  const int64 unit = place.unit, plane = work.heads * work.dim, size = work.batch * plane;
  const int64 here = t * size + place.row;
  Row<Element, kSaved> row;
  row.load(a.kept + here * kSaved);
  if (t > 0 && kSaved) prefetch(a.kept + (here - size) * kSaved);
#pragma unroll
  for (int i = 0; i < kSaved; ++i) kept[i] = row[i];
#pragma unroll
  for (int s = 0; s < kStates; ++s) {
    before[s] = after[s] = 0;
    if (kReads[s]) {
      after[s] = to_real(a.states[s][here]);
      before[s] = to_real(t > 0 ? a.states[s][here - size] : a.initial[s][place.row]);
      if (t > 1) prefetch(a.states[s] + here - 2 * size);
    }
    if (a.d_states[s]) {
      const Element* d = a.d_states[s] + t * a.d_states_time[s] + place.b * a.d_states_row[s] + unit;
      d_state[s] += to_real(*d);
      if (t > 0) prefetch(d - a.d_states_time[s]);
    }
  }
#pragma unroll
  for (int i = 0; i < kParams; ++i) param[i] = to_real(a.params[i][unit]);
  step_backward(kept, before, after, param, d_state, d_gate, d_param);

#pragma unroll
  for (int i = 0; i < kDiagonalPairs; ++i) {
    d_state[kDiagonalSource[i]] += to_real(a.R_diag[i * plane + unit]) * d_gate[kDiagonalGate[i]];
  }
#pragma unroll
  for (int s = 0; s < kStates; ++s) work.states[s][place.row] = d_state[s];
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      work.factors[source][pair_place(work, place, kSourcePairs[source], i)] =
          to_element<Element>(d_gate[kPairGate[kSourceFirstPair[source] + i]]);
    }
  }
  real wx[at_least_one(kInputGates)], rest[at_least_one(kGates - kInputGates)];
#pragma unroll
  for (int g = 0; g < kGates; ++g) {
    (g < kInputGates ? wx[g] : rest[g - kInputGates]) = d_gate[g];
  }
  Row<Element, kInputGates> wx_row;
  wx_row.set(wx);
  wx_row.store(a.d_wx + here * kInputGates);
  Row<Element, kGates - kInputGates> rest_row;
  rest_row.set(rest);
  rest_row.store(a.d_rest + here * (kGates - kInputGates));
  real* sums = work.sums + place.row;
#pragma unroll
  for (int i = 0; i < kBiasGates; ++i) sums[i * size] += d_gate[kBias[i]];
#pragma unroll
  for (int i = 0; i < kParams; ++i) sums[(kBiasGates + i) * size] += d_param[i];
#pragma unroll
  for (int i = 0; i < kDiagonalPairs; ++i) {
    sums[(kBiasGates + kParams + i) * size] +=
        d_gate[kDiagonalGate[i]] * before[kDiagonalSource[i]];
  }
}

// The gradients of the initial states, and the sums over time summed over the batch, in its order.
RNNC_INLINE void backward_end(const Work& work) {
  const BackwardArguments& a = *static_cast<const BackwardArguments*>(work.arguments);
  const Place place(work);
  if (!place.given) return;
  real d_state[kStates];
#pragma unroll
  for (int s = 0; s < kStates; ++s) d_state[s] = work.states[s][place.row];
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    d_state[kSourceState[source]] += sent_back(work, place, source);
  }
#pragma unroll
  for (int s = 0; s < kStates; ++s) a.d_initial[s][place.row] = to_element<Element>(d_state[s]);
  if (place.b != 0) return;
  const int64 plane = work.heads * work.dim, size = work.batch * plane;
  for (int i = 0; i < kSums; ++i) {
    real total = 0;
    for (int64 b = 0; b < work.batch; ++b) total += work.sums[i * size + b * plane + place.row];
    a.sums[i * plane + place.row] = total;
  }
}

RNNC_INLINE void advance(const Work& work, int64 steps) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *work.first_step += static_cast<int>(steps);
}

}  // namespace rnnc
