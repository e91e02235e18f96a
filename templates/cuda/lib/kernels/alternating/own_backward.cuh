// A backward step as one kernel. A strip of R is what sends the gradients of all gates back to 8 units.
//
// kSplit neighbours form a cluster that shares K: the gradients of all gates are G times as much as a
// state, and would take a block alone longer than R does. Each multiplies its share of K for the units
// of all of them, and pushes the sums to the one whose units they are.
#pragma once

namespace rnnc {

struct BackwardShare {
  static constexpr int kAhead = kBackwardAhead;
  RNNC_CONSTEXPR int strips(int) { return kSplit; }
};
using BackwardProduct = StepProduct<BackwardShare>;

// The products that come back to this block's units.
struct SentBack {
  __align__(16) float parts[BackwardProduct::kParts];
  __align__(16) float received[kSources][kSplit][kItems];
  __align__(8) unsigned long long arrived;

  // Before the wait: peers may push as soon as all of them are there.
  RNNC_MEMBER void open() {
    if constexpr (kSplit > 1) {
      if (threadIdx.x == 0) {
        mbarrier_init(shared_address(&arrived), 1);
        mbarrier_init_done();
      }
      cluster_sync();
      if (threadIdx.x == 0) mbarrier_expect(shared_address(&arrived), sizeof received);
    }
  }
  // Behind the product; adds to the gradient of each source, where the thread has an item.
  RNNC_MEMBER void add(const BackwardProduct& product, int item, const Wait& wait,
                       real (&d_state)[kStates]) {
    product.leave(parts);
    __syncthreads();
    if constexpr (kSplit > 1) {
      const u32 rank = cluster_rank(), base = shared_address(received);
      const u32 barrier = shared_address(&arrived);
      for (int i = threadIdx.x; i < BackwardProduct::kStrips * kItems / 2; i += blockDim.x) {
        const int strip = i / (kItems / 2), pair = i % (kItems / 2);
        const int source = strip / kSplit, peer = strip % kSplit;
        const float2 sum = BackwardProduct::total_pair(parts, strip, 2 * pair);
        const u32 to = base + ((source * kSplit + rank) * kItems + 2 * pair) * sizeof(float);
        push(peer_address(to, peer), __float_as_uint(sum.x), __float_as_uint(sum.y),
             peer_address(barrier, peer));
      }
      mbarrier_await(barrier, 0, wait);
    }
    if (item >= kItems) return;
#pragma unroll
    for (int source = 0; source < kSources; ++source) {
      if constexpr (kSplit > 1) {
#pragma unroll
        for (int peer = 0; peer < kSplit; ++peer) {
          d_state[kSourceState[source]] += received[source][peer][item];
        }
      } else {
        d_state[kSourceState[source]] += BackwardProduct::total(parts, source, item);
      }
    }
  }
};

// A block's share of K of a source, in chunks.
struct Share {
  int all, begin, end;

  RNNC_MEMBER Share(const Work& work, const Tile& tile, int source) {
    all = factor_pitch(work.dim) / kChunk * kSourcePairs[source];
    const int each = ceil_div(all, kSplit);
    begin = tile.tile % kSplit * each;
    end = smaller(all, begin + each);
  }
};

RNNC_INLINE void send_backward(BackwardProduct& product, const Work& work, const Tile& tile) {
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    const Share share(work, tile, source);
    const int64 strips = static_cast<int64>(blockIdx.x / kSplit) * share.all * kSplit;
    product.send<source>(work.weights[source] + strips * (kStripBytes / 2), share.begin, share.end);
  });
}

RNNC_INLINE void aim_backward(BackwardProduct& product, const Work& work, const Tile& tile,
                              int64 step) {
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    product.aim<source>(work.factors[source] + tile.rows(work, step, kSourcePairs[source]),
                        Share(work, tile, source).begin);
  });
}

RNNC_INLINE void multiply_backward(BackwardProduct& product, const Work& work) {
  const int64 bytes = int64{kTileBytes} * (factor_pitch(work.dim) / kChunk);
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    product.multiply<source>(bytes * kSourcePairs[source]);
  });
}

RNNC_INLINE void backward_step(const Work& work, int64 number) {
  __shared__ SentBack back;
  __shared__ unsigned long long arguments[sizeof(BackwardArguments) / 8];
  let_next_begin();
  const Tile tile(work);
  const Place place = tile.place(work);
  BackwardProduct product;
  send_backward(product, work, tile);
  back.open();
  const int64 step = load_fresh(work.first_step) + number;
  aim_backward(product, work, tile, step);
  const BackwardArguments& a = shared_arguments<BackwardArguments>(work, arguments);
  const int64 t = a.steps - 1 - step;
  BackwardInputs inputs;
  const bool over = t < 0;
  if (place.given && !over) inputs.load(a, work, place, t);
  await_last();
  if (over) return;

  BackwardCarried carried;
  if (place.given) carried.load_gradients(work, place);
  multiply_backward(product, work);
  if (place.given) carried.load_sums(work, place);
  back.add(product, tile.item, Wait{a.watchdog, static_cast<int>(step), kNoStep}, carried.d_state);
  if (place.given) backward_item(a, work, place, t, inputs, carried);
}

RNNC_INLINE void backward_end(const Work& work) {
  __shared__ SentBack back;
  __shared__ unsigned long long arguments[sizeof(BackwardArguments) / 8];
  const Tile tile(work);
  const Place place = tile.place(work);
  BackwardProduct product;
  send_backward(product, work, tile);
  back.open();
  const BackwardArguments& a = shared_arguments<BackwardArguments>(work, arguments);
  aim_backward(product, work, tile, a.steps);
  BackwardCarried carried;
  if (place.given) carried.load_gradients(work, place);
  multiply_backward(product, work);
  back.add(product, tile.item, Wait{a.watchdog, static_cast<int>(a.steps), kNoStep}, carried.d_state);
  if (place.given) backward_last(a, work, place, carried.d_state);
}

}  // namespace rnnc
