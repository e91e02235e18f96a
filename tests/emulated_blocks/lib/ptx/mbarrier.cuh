#pragma once
#include "lib/ptx/watchdog.cuh"
namespace rnnc {
inline void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  emulation::Phases& phases = emulation::own->phases[barrier];
  phases.bytes += bytes;
  --phases.pending;
  phases.settle();
}
inline void mbarrier_wait(u32 barrier, u32 parity, const Wait&) {
  while ((emulation::own->phases[barrier].phase & 1) == static_cast<int>(parity))
    emulation::yield();
}
inline void mbarrier_pair_init(u32 first) {
  for (int i = 0; i < 2; ++i) emulation::own->phases[first + 8 * i] = {1, 1, 0, 0};
}
inline void mbarrier_pair_expect_tx(u32 first, u32 bytes) {
  for (int i = 0; i < 2; ++i) mbarrier_arrive_expect_tx(first + 8 * i, bytes);
}
}  // namespace rnnc
