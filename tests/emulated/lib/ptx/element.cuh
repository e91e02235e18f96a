#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
struct bfloat16 {
  u16 bits;
};
struct float16 {
  u16 bits;
};
inline float to_real(float x) { return x; }
inline double to_real(double x) { return x; }
inline float to_real(bfloat16 x) { return std::bit_cast<float>(u32{x.bits} << 16); }
inline float to_real(float16 x) { return static_cast<float>(std::bit_cast<_Float16>(x.bits)); }
template <typename T>
T to_element(double x) {
  return static_cast<T>(x);
}
template <>
inline float16 to_element<float16>(double x) {
  return {std::bit_cast<u16>(static_cast<_Float16>(x))};
}
template <>
inline bfloat16 to_element<bfloat16>(double x) {
  const u32 word = std::bit_cast<u32>(static_cast<float>(x));
  return {static_cast<u16>((word + 0x7fffu + (word >> 16 & 1u)) >> 16)};
}
template <typename T>
u32 pack(T, float first, float second) {
  return to_element<T>(first).bits | u32{to_element<T>(second).bits} << 16;
}
}  // namespace rnnc
