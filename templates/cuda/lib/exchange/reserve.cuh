// Keeps multiprocessors free until all layers of a wavefront run on the others: their blocks would
// spread over all of them, and leave none for the matrix products between the layers.
//
// A block has so much shared memory that no other fits beside it.
#pragma once

#include "lib/ptx/ld_st.cuh"
#include "lib/ptx/watchdog.cuh"

namespace rnnc {

constexpr int64 kReserveBound = 20000000;  // ns: other work may hold the chip for longer

struct ReserveArguments {
  u32* started;      // counts the blocks of this launch
  const u32* layer;  // counts the blocks of the last layer that have started
  int64 blocks;      // that it has
};

RNNC_INLINE void reserve(const ReserveArguments& a) {
  if (threadIdx.x) return;
  red_add_relaxed_gpu(a.started, 1);
  const u32 first = ticks();
  while (ld_relaxed_gpu(a.layer) < a.blocks) {
    if (ticks() - first > kReserveBound >> kTickBits) return;
  }
}

}  // namespace rnnc

extern "C" __global__ void __launch_bounds__(32, 1)
rnnc_reserve(const __grid_constant__ rnnc::ReserveArguments arguments) {
  rnnc::reserve(arguments);
}
