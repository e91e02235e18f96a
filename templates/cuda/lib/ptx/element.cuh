// Conversions between elements, as numbers lie in memory, and `real`, the type that they are
// computed in.
//
// bfloat16 and float16 are defined here, in a few PTX instructions, so that kernels compile without
// headers of the CUDA toolkit.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

struct bfloat16 {
  u16 bits;
};

struct float16 {
  u16 bits;
};

RNNC_INLINE float to_real(float x) { return x; }
RNNC_INLINE double to_real(double x) { return x; }
RNNC_INLINE float to_real(bfloat16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }
RNNC_INLINE float to_real(float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

template <typename T>
RNNC_INLINE T to_element(float x) {
  return x;
}
template <typename T>
RNNC_INLINE T to_element(double x) {
  return x;
}
template <>
RNNC_MEMBER bfloat16 to_element<bfloat16>(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
}
template <>
RNNC_MEMBER float16 to_element<float16>(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
}

// Two elements in one word, the first in the low half.
RNNC_INLINE u32 pack(bfloat16, float first, float second) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
RNNC_INLINE u32 pack(float16, float first, float second) {
  u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

}  // namespace rnnc
