// mbarriers, which count the bytes that peers of a cluster store. Compute capability 9.0 and later.
//
// An mbarrier is 8 aligned bytes of shared memory. A phase completes when all expected threads have
// arrived and all bytes that they announced have come, in any order; then the next phase begins.
#pragma once

#include "lib/ptx/watchdog.cuh"

namespace rnnc {

RNNC_INLINE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// By the thread that called mbarrier_init, before a cluster_sync: then peers may store.
RNNC_INLINE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives and announces bytes of this phase, some of which may have come already.
RNNC_INLINE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Whether the phase of that parity has completed; the hardware waits a while before it says no.
// NOTE: CTA scope is enough, since peers store to this block's own shared memory, which no cache
// shadows; an acquire of cluster scope would invalidate the L1 cache in each wait.
RNNC_INLINE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 over;
  asm volatile(
      "{ .reg .pred over;\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 over, [%1], %2;\n"
      "selp.u32 %0, 1, 0, over; }"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return over != 0;
}
RNNC_INLINE void mbarrier_wait(u32 barrier, u32 parity, const Wait& wait) {
  if (mbarrier_try_wait(barrier, parity)) return;
  Watchdog watchdog;
  while (!mbarrier_try_wait(barrier, parity)) watchdog.poll(wait);
}

// Two mbarriers, 8 bytes apart and of one arrival each. One thread initialises both, and after the
// cluster_sync announces the bytes of both.
RNNC_INLINE void mbarrier_pair_init(u32 first) {
  repeat<2>([&](int i) { mbarrier_init(first + 8 * i, 1); });
  fence_mbarrier_init();
}
RNNC_INLINE void mbarrier_pair_expect_tx(u32 first, u32 bytes) {
  repeat<2>([&](int i) { mbarrier_arrive_expect_tx(first + 8 * i, bytes); });
}

}  // namespace rnnc
