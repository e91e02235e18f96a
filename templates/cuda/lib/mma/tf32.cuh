// float32 products on tf32 instructions: one product, or three of split numbers (3xTF32).
#pragma once

#include "lib/mma/k_tile.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/mma.cuh"

namespace rnnc {

// A float32 as the sum of two tf32. The instruction reads the upper 19 bits of each.
//
// Infinities and zeros multiply as they should with any factor, and no intermediate of a finite
// product overflows before the product does:
// - A weight above kModerate has a truncated high part, so its low part has the weight's sign. Then
//   no low part times a huge state opposes the product of the high parts.
// - A smaller weight has a rounded high part, which halves the error of the three products. For any
//   states, the sum of the small products of an instruction is finite, so it opposes no infinity.
// - A state's high part is rounded, and clamped to the largest tf32; its low part is the difference,
//   or the infinity. NOTE: the product of two rounded high parts may exceed the true product by
//   2^-11 and overflow; the instruction that multiplies them starts from the small products, which
//   cancel that excess.
// - An infinite weight has high part 1, whose product with a state's low part is finite, and low
//   part infinity, which takes the sign of the state's high part. A NaN is its own low part.
struct SplitWord {
  u32 high, low;
};
constexpr bool kSplitsWords = kPack == 1 && !kTf32;
// The bits of 256.0f. Eight low parts of such weights (at most 1/16 each) times states below 2^128,
// and 256 times eight low parts of such states (at most 2^116 each), sum to less than 2^128.
constexpr u32 kModerate = 0x43800000u;

// Whether the high parts of a thread's weights are rounded: only if no weight exceeds kModerate. A
// choice per weight would cost instructions in every step.
struct Rounding {
  // The largest magnitude so far; after `settle`, the term to add before truncation.
  u32 bits;

  RNNC_MEMBER void begin() {
    if constexpr (kSplitsWords) bits = 0;
  }
  RNNC_MEMBER void include(u32 weight) {
    if constexpr (kSplitsWords) bits = max(bits, weight & 0x7fffffffu);
  }
  RNNC_MEMBER void settle() {
    if constexpr (kSplitsWords) bits = launder(bits <= kModerate ? 0x1000u : 0u);
  }
};

RNNC_INLINE u32 minus(u32 x, float high) { return __float_as_uint(__uint_as_float(x) - high); }
RNNC_INLINE SplitWord split_state(u32 x) {
  constexpr float largest = 0x1.ffcp127f;
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(x)));
  float high = __uint_as_float(rounded);
#if __CUDA_ARCH__ >= 860
  asm("min.xorsign.abs.f32 %0, %0, %1;" : "+f"(high) : "f"(largest));
#else
  high = fmaxf(fminf(high, largest), -largest);
#endif
  return {__float_as_uint(high), minus(x, high)};
}
// NOTE: volatile, or the compiler would split R once and need twice the registers.
RNNC_INLINE SplitWord split_weight(u32 x, u32 rounding) {
  u32 high;
#if __CUDA_ARCH__ >= 1000
  // NOTE: the largest tf32 and not 1, or the compiler keeps predicates in registers and spills.
  float clamped;
  asm volatile(
      "{ .reg .b32 rounded;\n"
      "add.u32 rounded, %1, %2;\n"
      "and.b32 rounded, rounded, 0xffffe000;\n"
      "min.xorsign.abs.f32 %0, rounded, 0f7f7fe000; }"
      : "=f"(clamped)
      : "r"(x), "r"(rounding));
  high = __float_as_uint(clamped);
#else
  asm volatile(
      "{ .reg .pred infinite;\n"
      ".reg .f32 size;\n"
      ".reg .b32 rounded;\n"
      "abs.f32 size, %2;\n"
      "setp.eq.f32 infinite, size, 0f7f800000;\n"
      "add.u32 rounded, %1, %3;\n"
      "and.b32 %0, rounded, 0xffffe000;\n"
      "@infinite xor.b32 %0, %1, 0x40000000; }"
      : "=r"(high)
      : "r"(x), "f"(__uint_as_float(x)), "r"(rounding));
#endif
  return {high, minus(x, __uint_as_float(high))};
}
// Prepares a word of R for the product. If it will be split, it is rounded once to what the two
// parts hold: 23 bits if the high part is rounded, 22 if it is truncated (if another weight exceeds
// kModerate, the product drops the last of 23 bits). For one tf32 product, a NaN stays a NaN in its
// upper bits.
RNNC_INLINE u32 prepare_weight(u32 x, Rounding& rounding) {
  if constexpr (kPack > 1) return x;
  rounding.include(x);
  const float size = ::fabsf(__uint_as_float(x));
  if constexpr (kTf32) return size <= __int_as_float(0x7f800000) ? x : 0x7fc00000u;
  // To even; values above the largest are truncated, so that they stay finite.
  const u32 finer = (x + (x >> 1 & 1u)) & ~1u, rounded = (x + 1u + (x >> 2 & 1u)) & ~3u;
  const u32 large = size < __int_as_float(0x7f800000) ? x & ~3u : x;
  return size <= __uint_as_float(kModerate) ? finer : size < 0x1.fffffcp127f ? rounded : large;
}

// A state for one tf32 product: a NaN is canonicalised, because its upper bits alone may be an
// infinity.
RNNC_INLINE u32 canonical_state(u32 x) {
  float y;
  asm("min.NaN.f32 %0, %1, 0f7f800000;" : "=f"(y) : "f"(__uint_as_float(x)));
  return __float_as_uint(y);
}

// The nearest tf32; a NaN stays one.
RNNC_INLINE u32 round_to_tf32(u32 x) {
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
  return y;
}

// Zero for any x, but available only after x is. NOTE: the compiler must not see that it is
// constant.
RNNC_INLINE float zero_after(float x) {
  float zero;
  asm volatile("{ .reg .f32 size; abs.f32 size, %1; min.f32 %0, size, 0f00000000; }"
               : "=f"(zero)
               : "f"(x));
  return zero;
}

}  // namespace rnnc
