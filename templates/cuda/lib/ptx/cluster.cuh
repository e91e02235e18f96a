// Thread block clusters: ranks, addresses in the shared memory of peers, barriers and stores to
// peers. Compute capability 9.0 and later.
//
// Addresses are 32-bit shared addresses: of this block, or of a peer as `mapa` returns it. A peer's
// shared memory is linear: an offset may be added to the address of its first byte.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

RNNC_INLINE u32 cluster_ctarank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The address, in the block of that rank, of what lies at `address` in this block.
RNNC_INLINE u32 mapa(u32 address, u32 rank) {
  u32 peer;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(address), "r"(rank));
  return peer;
}

// A barrier of all threads of the cluster, which also publishes their writes. NOTE: only before the
// first step and after the last one: within a step it would wait for all stores of the step.
RNNC_INLINE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Stores to a peer; its mbarrier, in the same block, counts the bytes when they have arrived. The
// address is aligned to all words together.
RNNC_INLINE void st_async_v2(u32 to, u32 first, u32 second, u32 barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          to),
      "r"(first), "r"(second), "r"(barrier)
      : "memory");
}
RNNC_INLINE void st_async_v4(u32 to, const u32 (&words)[4], u32 barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(barrier)
      : "memory");
}

}  // namespace rnnc
