// Products of float32 are exact.
#pragma once
#include "lib/mma/k_tile.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/mma.cuh"
namespace rnnc {
struct SplitWord {
  u32 high, low;
};
struct Rounding {
  u32 bits = 0;
  void begin() {}
  void settle() {}
};
inline SplitWord split_state(u32 x) { return {x, 0}; }
inline SplitWord split_weight(u32 x, u32) { return {x, 0}; }
inline u32 prepare_weight(u32 x, Rounding&) { return x; }
inline u32 canonical_state(u32 x) { return x; }
inline float zero_after(float) { return 0; }
}  // namespace rnnc
