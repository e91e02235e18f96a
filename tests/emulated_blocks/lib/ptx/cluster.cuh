// Addresses at peers have the rank, from 1 on, in their highest byte.
#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
inline u32 cluster_ctarank() { return emulation::own->rank; }
inline u32 mapa(u32 address, u32 rank) { return (rank + 1) << 24 | address; }
inline void cluster_sync() { emulation::wait(emulation::cluster()); }
template <int count>
void st_async(u32 to, const u32 (&words)[count], u32 barrier) {
  emulation::Block& peer = emulation::peer((to >> 24) - 1);
  const u64 begin = (reinterpret_cast<u64>(peer.memory.data()) + 127) / 128 * 128;
  memcpy(reinterpret_cast<char*>(begin) + (to & 0xffffff), words, sizeof words);
  emulation::Phases& phases = peer.phases[barrier & 0xffffff];
  phases.bytes -= sizeof words;
  phases.settle();
}
inline void st_async_v2(u32 to, u32 first, u32 second, u32 barrier) {
  st_async<2>(to, {first, second}, barrier);
}
inline void st_async_v4(u32 to, const u32 (&words)[4], u32 barrier) {
  st_async(to, words, barrier);
}
}  // namespace rnnc
