#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
inline float rsqrt_of_normal(float x) { return 1.0f / ::sqrtf(x); }
}  // namespace rnnc
