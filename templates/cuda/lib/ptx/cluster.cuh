// Clusters: blocks that write into each other's shared memory, and mbarriers that count the bytes
// that arrived. Compute capability 9.0 and later.
//
// Addresses are 32-bit: of this block's shared memory, or of a peer's as peer_address gives it. A
// peer's is linear: an offset may be added to the address of its first byte.
#pragma once

namespace rnnc {

RNNC_INLINE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

RNNC_INLINE char* shared_pointer(u32 address) {
  return static_cast<char*>(__cvta_shared_to_generic(address));
}

// NOTE: volatile, as are the products, so that it stays where it is written.
RNNC_INLINE uint4 load_shared(u32 address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// This block's number in its cluster.
RNNC_INLINE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// What lies at `own` in this block, in the block of that rank.
RNNC_INLINE u32 peer_address(u32 own, u32 rank) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
  return address;
}

// A barrier of all threads of the cluster, which also makes their writes known to each other. NOTE:
// for the beginning and the end; in a step it would wait for all the step's stores.
RNNC_INLINE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// An mbarrier is 8 bytes, aligned. Its phase is over when `arrivals` threads have arrived and all
// the bytes that they announced have come, in whichever order; then the next begins.
RNNC_INLINE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// By the thread that called mbarrier_init, ahead of a cluster_sync: peers may then push.
RNNC_INLINE void mbarrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and announces bytes of this phase. Some of them may have come already.
RNNC_INLINE void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Two of them, 8 bytes apart, of one arrival each: by one thread, which after the cluster_sync
// announces the bytes of both.
RNNC_INLINE void mbarriers_begin(u32 first) {
#pragma unroll
  for (int i = 0; i < 2; ++i) mbarrier_init(first + 8 * i, 1);
  mbarrier_init_done();
}
RNNC_INLINE void mbarriers_expect(u32 first, u32 bytes) {
#pragma unroll
  for (int i = 0; i < 2; ++i) mbarrier_expect(first + 8 * i, bytes);
}
// Whether the phase of that parity is over; the hardware waits a while before it says no. NOTE: of
// the block's scope, since what was pushed lies in its own shared memory, which no cache shadows; the
// cluster's would throw away all of the L1 cache at each wait.
RNNC_INLINE bool mbarrier_over(u32 barrier, u32 parity) {
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
RNNC_INLINE void mbarrier_await(u32 barrier, u32 parity, const Wait& wait) {
  if (mbarrier_over(barrier, parity)) return;
  Watchdog watchdog;
  while (!mbarrier_over(barrier, parity)) watchdog.turn(wait);
}

// Stores into a peer's shared memory; its mbarrier, of the same peer, counts the bytes when they are
// there. Aligned as wide as the words are together.
RNNC_INLINE void push(u32 to, u32 word, u32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
               "r"(word), "r"(barrier)
               : "memory");
}
RNNC_INLINE void push(u32 to, u32 first, u32 second, u32 barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
      "r"(first), "r"(second), "r"(barrier)
      : "memory");
}
RNNC_INLINE void push(u32 to, const u32 (&words)[4], u32 barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::
          "r"(to),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(barrier)
      : "memory");
}

}  // namespace rnnc
