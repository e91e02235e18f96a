#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
template <typename T>
T launder(T x) {
  return x;
}
template <typename T>
T pin(T x) {
  return x;
}
inline void limit_loads_in_flight() {}
}  // namespace rnnc
