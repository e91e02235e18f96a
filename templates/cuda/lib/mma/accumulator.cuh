// Accumulators of matrix products in float32.
#pragma once

#include "lib/mma/tf32.cuh"

namespace rnnc {

// Three tf32 products have an error of about 2^-22. The instruction truncates its accumulator,
// always towards zero, and over a long sum these errors would add up. So each instruction chain
// sums only eight products, the small ones first, and an addition, which rounds, adds them to the
// total. NOTE: nothing waits for the total, so the compiler would delay the additions and keep the
// products of all k_tiles in registers, and spill. Starting the next product from zero_after(total)
// prevents that.
RNNC_INLINE void mma(float, float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1,
                     const Rounding& rounding) {
  if constexpr (kTf32) {
    mma_m16n8k8_tf32(sum, a, canonical_state(b0), canonical_state(b1));
  } else {
    const SplitWord split_b0 = split_state(b0), split_b1 = split_state(b1);
    u32 high[4], low[4];
    float product[4];
    repeat<4>([&](int i) {
      const SplitWord word = split_weight(a[i], rounding.bits);
      high[i] = word.high;
      low[i] = word.low;
      product[i] = zero_after(sum[i]);
    });
    mma_m16n8k8_tf32(product, low, split_b0.high, split_b1.high);
    mma_m16n8k8_tf32(product, high, split_b0.low, split_b1.low);
    mma_m16n8k8_tf32(product, high, split_b0.high, split_b1.high);
    repeat<4>([&](int i) { sum[i] += product[i]; });
  }
}

// Whether the accumulator starts from the gate without the product. Not in float32, since the
// instruction truncates.
constexpr bool kSeeded = kPack == 2;
// Whether no earlier pair has the gate of this one.
RNNC_CONSTEXPR bool first_of_gate(int pair) {
  for (int i = 0; i < pair; ++i) {
    if (kPairGate[i] == kPairGate[pair]) return false;
  }
  return true;
}

// The accumulator of a tile. A single one would make each instruction wait for the last, so there
// are several in turn, whose sum is the result.
template <int num_accumulators>
struct Accumulator {
  float part[num_accumulators][4];

  RNNC_MEMBER void clear() { memset(part, 0, sizeof part); }
  // `rounding` is that of the weights.
  template <int mma_step>
  RNNC_MEMBER void add(const u32 (&a)[4], u32 b0, u32 b1, const Rounding& rounding) {
    if constexpr (kPack == 2) {
      mma_m16n8k16(Element{}, part[mma_step % num_accumulators], a, b0, b1);
    } else {
      mma(Element{}, part[mma_step % num_accumulators], a, b0, b1, rounding);
    }
  }
  RNNC_MEMBER float total(int i) const {
    float sum = part[0][i];
#pragma unroll
    for (int k = 1; k < num_accumulators; ++k) sum += part[k][i];
    return sum;
  }
};

}  // namespace rnnc
