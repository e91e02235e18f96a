// The kernels between two matrix products of the library.
#pragma once

namespace rnnc {

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

RNNC_INLINE void forward_step(const Work& work, int64 number) {
  const Place place(work);
  if (!place.given) return;
  real gate[at_least_one(kGates)] = {}, state[kStates];
  // What lies in buffers of its own is on its way while the arguments come.
#pragma unroll
  for (int s = 0; s < kStates; ++s) state[s] = work.states[s][place.row];
  const int64 column = (static_cast<int64>(place.n) * work.batch + place.b) * work.dim + place.d;
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
    const real* product = work.products[source] + column * kSourcePairs[source];
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      gate[kPairGate[kSourceFirstPair[source] + i]] += product[i];
    }
  }
  const Call<ForwardArguments> call(work, number);
  if (call.step >= call.a.steps) return;
  ForwardInputs inputs;
  inputs.load(call.a, work, place, call.step);
  forward_item(call.a, work, place, call.step, inputs, gate, state);
}

// Adds what the step after has sent back: each pair's product adds to the gradient of its source.
RNNC_INLINE void add_products(const Work& work, const Place& place, real (&d_state)[kStates]) {
#pragma unroll
  for (int source = 0; source < kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) {
      d_state[kSourceState[source]] +=
          work.products[source][factor_place(work, place, 0, kSourcePairs[source], i)];
    }
  }
}

RNNC_INLINE void backward_step(const Work& work, int64 number) {
  const Place place(work);
  if (!place.given) return;
  BackwardCarried carried;
  carried.load_gradients(work, place);
  carried.load_sums(work, place);
  add_products(work, place, carried.d_state);
  const Call<BackwardArguments> call(work, number);
  const int64 t = call.a.steps - 1 - call.step;
  if (t < 0) return;
  BackwardInputs inputs;
  inputs.load(call.a, work, place, t);
  backward_item(call.a, work, place, t, inputs, carried);
}

RNNC_INLINE void backward_end(const Work& work) {
  const Place place(work);
  if (!place.given) return;
  real d_state[kStates];
#pragma unroll
  for (int s = 0; s < kStates; ++s) d_state[s] = work.states[s][place.row];
  add_products(work, place, d_state);
  backward_last(*static_cast<const BackwardArguments*>(work.arguments), work, place, d_state);
}

}  // namespace rnnc
