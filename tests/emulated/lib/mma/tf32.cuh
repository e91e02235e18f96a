// Without the rounding, so that values can be compared closely.
#pragma once
#include "lib/mma/k_tile.cuh"
#include "lib/ptx/mma.cuh"
namespace rnnc {
inline u32 round_to_tf32(u32 x) { return x; }
}  // namespace rnnc
