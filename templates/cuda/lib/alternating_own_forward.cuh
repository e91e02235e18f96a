// A forward step as one kernel. A strip of R is a block's 8 units of a pair of gate and source.
#pragma once

namespace rnnc {

struct ForwardShare {
  static constexpr int kAhead = kForwardAhead;
  RNNC_CONSTEXPR int strips(int source) { return kSourcePairs[source]; }
};
using ForwardProduct = StepProduct<ForwardShare>;

RNNC_INLINE void forward_step(const Work& work, int64 number) {
  __shared__ __align__(16) float parts[ForwardProduct::kParts];
  __shared__ unsigned long long arguments[sizeof(ForwardArguments) / 8];
  let_next_begin();
  const Tile tile(work);
  const Place place = tile.place(work);
  const int pitch = factor_pitch(work.dim), chunks = pitch / kChunk;
  ForwardProduct product;
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    const int64 before = static_cast<int64>(blockIdx.x) * chunks;
    product.send<source>(work.weights[source] + before * kSourcePairs[source] * (kStripBytes / 2),
                         0, chunks);
  });
  const SharedCall<ForwardArguments> call(work, number, arguments);
  const int64 t = call.step;
  ForwardInputs inputs;
  if (place.given && t < call.a.steps) inputs.load(call.a, work, place, t);
  await_last();
  if (t >= call.a.steps) return;

  real state[kStates];
  if (place.given) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[s] = load_fresh(work.states[s] + place.row);
  }
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    const int64 before = (t & 1) * work.heads + tile.head;
    product.multiply<source>(work.factors[source] + before * work.batch * pitch,
                             pitch * int64{sizeof(Element)}, tile.first_row, work.batch);
  });
  product.leave(parts);
  __syncthreads();
  if (!place.given) return;
  real gate[at_least_one(kGates)] = {};
#pragma unroll
  for (int pair = 0; pair < kDensePairs; ++pair) {
    gate[kPairGate[pair]] += ForwardProduct::total(parts, pair, tile.item);
  }
  forward_item(call.a, work, place, t, inputs, gate, state);
}

}  // namespace rnnc
