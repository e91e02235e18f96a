// Matrix instructions: a fragment of 16 rows in four registers times a fragment of 8 columns in two.
//
// K is cut into chunks of 16 words (64 bytes a row). Of a chunk, lane quad q owns the four words
// 4q .. 4q + 3, on both sides of the product, so that one 16-byte load of a row feeds two
// instructions: the first takes words 4q and 4q + 1, the second 4q + 2 and 4q + 3.
#pragma once

namespace rnnc {

constexpr int kPack = 4 / sizeof(Element);  // elements of a word
constexpr int kChunk = 16 * kPack;          // elements of K in a chunk
RNNC_CONSTEXPR int smaller(int a, int b) { return a < b ? a : b; }

RNNC_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
RNNC_CONSTEXPR int round_up(int a, int b) { return ceil_div(a, b) * b; }

RNNC_INLINE void multiply_add(bfloat16, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
      " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

RNNC_INLINE void multiply_add(float16, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
      " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

RNNC_INLINE void multiply_add_tf32(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
      " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// float32 as the sum of two tf32, of which the instruction reads the upper 19 bits.
//
// Infinities and zeros are multiplied as they are, whatever the other side is, and nothing of a finite
// product exceeds what is finite before the product does:
// - the rest of a weight beyond kModerate has the weight's sign, since its high part is truncated. So
//   no such rest times a huge state opposes the product of the high parts.
// - a smaller weight's high part is rounded, which halves what the three products leave out. Whatever
//   the states are, the small products of an instruction are finite, all of them together: so they
//   oppose no infinity.
// - a state's high part is rounded too. It is the largest tf32 where that would be infinite, and the
//   rest is the rest, or the infinity. NOTE: two rounded high parts give up to 2^-11 more than their
//   numbers do, beyond the largest float too; the instruction that multiplies them begins with the
//   small products, which take that back.
// - an infinite weight has 1 as its high part, whose product with a state's rest is finite, and itself
//   as its rest, which the state's high part gives its sign. A NaN is its own rest.
struct SplitWord {
  u32 high, rest;
};
constexpr bool kSplitsWords = kPack == 1 && !kTf32;
// 256, as the bits of a float. Eight rests of such weights, 1/16 at most, times states below 2^128,
// and 256 times eight rests of such states, 2^116 at most, make less than 2^128.
constexpr u32 kModerate = 0x43800000u;

// Whether the high parts of a thread's weights are rounded: if none of them exceeds kModerate. A
// choice for each weight would take instructions in every step.
struct Rounding {
  // Of the largest weight, without its sign; from `settle` on, what is added ahead of truncation.
  u32 bits;

  RNNC_MEMBER void begin() {
    if constexpr (kSplitsWords) bits = 0;
  }
  RNNC_MEMBER void include(u32 weight) {
    if constexpr (kSplitsWords) bits = max(bits, weight & 0x7fffffffu);
  }
  RNNC_MEMBER void settle() {
    if constexpr (kSplitsWords) bits = here(bits <= kModerate ? 0x1000u : 0u);
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
// NOTE: volatile, or the compiler would keep all of R split, in as many registers again.
RNNC_INLINE SplitWord split_weight(u32 x, u32 rounding) {
  u32 high;
#if __CUDA_ARCH__ >= 1000
  // NOTE: the largest in place of 1, or the compiler spills: it holds predicates in registers.
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
// A word of R as it is multiplied: where it will be split, rounded once to what a high part and a rest
// hold, 23 bits if the high part is rounded and 22 if it is truncated; elsewhere a NaN that the
// instruction reads as one. Of a weight up to kModerate beside a larger one the instruction leaves out
// the last of 23 bits.
RNNC_INLINE u32 as_weight(u32 x, Rounding& rounding) {
  if constexpr (kPack > 1) return x;
  rounding.include(x);
  const float size = ::fabsf(__uint_as_float(x));
  if constexpr (kTf32) return size <= __int_as_float(0x7f800000) ? x : 0x7fc00000u;
  // To even. What is beyond the largest stays below infinity.
  const u32 finer = (x + (x >> 1 & 1u)) & ~1u, rounded = (x + 1u + (x >> 2 & 1u)) & ~3u;
  const u32 large = size < __int_as_float(0x7f800000) ? x & ~3u : x;
  return size <= __uint_as_float(kModerate) ? finer : size < 0x1.fffffcp127f ? rounded : large;
}

// A state whose lower bits the instruction may leave out: what is left of a NaN may be an infinity.
RNNC_INLINE u32 quiet_state(u32 x) {
  float y;
  asm("min.NaN.f32 %0, %1, 0f7f800000;" : "=f"(y) : "f"(__uint_as_float(x)));
  return __float_as_uint(y);
}

// Zero, whatever x is, but not before x is known. NOTE: the compiler must not see that it is constant.
RNNC_INLINE float zero_after(float x) {
  float zero;
  asm volatile(
      "{ .reg .f32 size; abs.f32 size, %1; min.f32 %0, size, 0f00000000; }"
      : "=f"(zero)
      : "f"(x));
  return zero;
}

// Three products of tf32 leave out what is of the order 2^-22. The instruction truncates its
// accumulator, and truncations of a long sum add up, all towards zero: so it sums eight products
// only, the small ones first, and an addition, which rounds, takes them to the sum of all.
// NOTE: nobody waits for that sum, so the compiler puts additions off and keeps the products of all
// of K in registers, more than there are. It cannot where the next product of this sum begins with
// a zero that comes after the addition.
RNNC_INLINE void multiply_add(float, float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1,
                              const Rounding& rounding) {
  if constexpr (kTf32) {
    multiply_add_tf32(sum, a, quiet_state(b0), quiet_state(b1));
  } else {
    const SplitWord split_b0 = split_state(b0), split_b1 = split_state(b1);
    u32 high[4], rest[4];
    float product[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const SplitWord word = split_weight(a[i], rounding.bits);
      high[i] = word.high;
      rest[i] = word.rest;
      product[i] = zero_after(sum[i]);
    }
    multiply_add_tf32(product, rest, split_b0.high, split_b1.high);
    multiply_add_tf32(product, high, split_b0.rest, split_b1.rest);
    multiply_add_tf32(product, high, split_b0.high, split_b1.high);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += product[i];
  }
}

// Whether a sum begins with the rest of its gate. Not for float32, since the instruction truncates.
constexpr bool kSeeded = kPack == 2;
// Whether no pair before this one has its gate.
RNNC_CONSTEXPR bool first_of_gate(int pair) {
  for (int i = 0; i < pair; ++i) {
    if (kPairGate[i] == kPairGate[pair]) return false;
  }
  return true;
}

// Sums of a tile. An instruction waits for its accumulator, so there are `chains` that take turns;
// what they hold in all is the sum.
template <int chains>
struct Sums {
  float part[chains][4];

  RNNC_MEMBER void clear() { memset(part, 0, sizeof part); }
  // `rounding` is that of the weights.
  template <int turn>
  RNNC_MEMBER void add(const u32 (&a)[4], u32 b0, u32 b1, const Rounding& rounding) {
    if constexpr (kPack == 2) {
      multiply_add(Element{}, part[turn % chains], a, b0, b1);
    } else {
      multiply_add(Element{}, part[turn % chains], a, b0, b1, rounding);
    }
  }
  RNNC_MEMBER float total(int i) const {
    float sum = part[0][i];
#pragma unroll
    for (int chain = 1; chain < chains; ++chain) sum += part[chain][i];
    return sum;
  }
};

}  // namespace rnnc
