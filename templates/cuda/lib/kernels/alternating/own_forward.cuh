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
  const int chunks = factor_pitch(work.dim) / kChunk;
  ForwardProduct product;
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    const int64 strips = static_cast<int64>(blockIdx.x) * chunks * kSourcePairs[source];
    product.send<source>(work.weights[source] + strips * (kStripBytes / 2), 0, chunks);
  });
  const int64 step = load_fresh(work.first_step) + number;
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    product.aim<source>(work.factors[source] + tile.rows(work, step, 1), 0);
  });
  const ForwardArguments& a = shared_arguments<ForwardArguments>(work, arguments);
  ForwardInputs inputs;
  const bool over = step >= a.steps;
  if (place.given && !over) inputs.load(a, work, place, step);
  await_last();
  if (over) return;

  real state[kStates];
  if (place.given) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[s] = load_fresh(work.states[s] + place.row);
  }
  unroll<kSources>([&](auto source_index) {
    product.multiply<decltype(source_index)::value>(int64{kTileBytes} * chunks);
  });
  product.leave(parts);
  __syncthreads();
  if (!place.given) return;
  real gate[at_least_one(kGates)] = {};
#pragma unroll
  for (int pair = 0; pair < kDensePairs; ++pair) {
    gate[kPairGate[pair]] += ForwardProduct::total(parts, pair, tile.item);
  }
  forward_item(a, work, place, step, inputs, gate, state);
}

}  // namespace rnnc
