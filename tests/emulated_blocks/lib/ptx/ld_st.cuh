#pragma once
#include "lib/ptx/types.cuh"
namespace emulation {
// Of a test, if it has one: is told of a counter of a wavefront, and of its new number.
inline void (*handover)(const unsigned*, unsigned);
}  // namespace emulation
namespace rnnc {
inline u32 shared_address(const void* pointer) {
  return static_cast<u32>(static_cast<const char*>(pointer) - shared);
}
inline char* shared_pointer(u32 address) { return shared + address; }
template <typename T>
T loaded(const void* from) {
  T value;
  if (reinterpret_cast<u64>(from) % sizeof(T)) std::abort();
  memcpy(&value, from, sizeof value);
  return value;
}
inline uint4 ld_shared_v4(u32 address) { return loaded<uint4>(shared + address); }
inline u16 ld_global_u16(const void* from) { return loaded<u16>(from); }
inline u32 ld_global_u32(const void* from) { return loaded<u32>(from); }
inline int ld_global_s32(const int* from) { return *from; }
inline u64 ld_global_u64(const void* from) { return loaded<u64>(from); }
inline void ld_global_v4(u32 (&w)[4], const void* from) { memcpy(w, from, sizeof w); }
inline u32 ld_global_nc_u8(const void* from) { return *static_cast<const unsigned char*>(from); }
template <typename T, int n>
void ld_global_nc(T (&w)[n], const void* from) {
  memcpy(w, from, sizeof w);
}
template <typename T, int n>
void st_global(void* to, const T (&w)[n]) {
  memcpy(to, w, sizeof w);
}
template <typename T>
T ld_relaxed_gpu(const T* from) {
  return *from;
}
inline uint4 ld_relaxed_gpu_v4(const char* from) { return loaded<uint4>(from); }
// A word of an exchange buffer is written once in a launch, and with something else than what the
// buffer is filled with: so no reader can take what is not meant for it.
template <typename T>
void st_relaxed_gpu(char* to, T word) {
  if (loaded<T>(to) != static_cast<T>(~T{0}) || word == static_cast<T>(~T{0})) std::abort();
  memcpy(to, &word, sizeof word);
}
template <typename T>
void red_add(T* to, T value) {
  *to += value;
}
// Counters of a wavefront.
inline u32 ld_acquire_gpu(const u32* from) {
  if (emulation::handover) emulation::handover(from, 0);
  return *from;
}
inline void red_add_relaxed_gpu(u32* to, u32 value) { *to += value; }
inline void red_add_release_gpu(u32* to, u32 value) {
  *to += value;
  if (emulation::handover) emulation::handover(to, *to);
}
inline void prefetch_l2(const void*) {}
}  // namespace rnnc
