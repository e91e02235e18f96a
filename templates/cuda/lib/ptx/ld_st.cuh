// Loads and stores, one wrapper per PTX instruction and named after it.
//
// All are volatile: a load stays where it is written, ahead of its use. Those that clobber memory
// also keep their order with barriers.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

RNNC_INLINE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}
RNNC_INLINE char* shared_pointer(u32 address) {
  return static_cast<char*>(__cvta_shared_to_generic(address));
}

RNNC_INLINE uint4 ld_shared_v4(u32 address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// Plain global loads. NOTE: no .nc, or the compiler would move them across barriers.
RNNC_INLINE u16 ld_global_u16(const void* from) {
  u16 half;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(from) : "memory");
  return half;
}
RNNC_INLINE u32 ld_global_u32(const void* from) {
  u32 word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
RNNC_INLINE void ld_global_v4(u32 (&w)[4], const void* from) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(from)
               : "memory");
}
// Without a memory clobber: several are in flight together.
RNNC_INLINE int ld_global_s32(const int* from) {
  int value;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
RNNC_INLINE u64 ld_global_u64(const void* from) {
  u64 value;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(from));
  return value;
}

// Loads of data that nobody writes during the launch.
RNNC_INLINE u32 ld_global_nc_u8(const void* from) {
  u32 byte;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(byte) : "l"(from));
  return byte;
}
RNNC_INLINE void ld_global_nc(u16 (&w)[1], const void* from) {
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(w[0]) : "l"(from));
}
RNNC_INLINE void ld_global_nc(u32 (&w)[1], const void* from) {
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(w[0]) : "l"(from));
}
RNNC_INLINE void ld_global_nc(u32 (&w)[2], const void* from) {
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(from));
}
RNNC_INLINE void ld_global_nc(u32 (&w)[4], const void* from) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(from));
}

RNNC_INLINE void st_global(void* to, const u16 (&w)[1]) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "h"(w[0]) : "memory");
}
RNNC_INLINE void st_global(void* to, const u32 (&w)[1]) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(w[0]) : "memory");
}
RNNC_INLINE void st_global(void* to, const u32 (&w)[2]) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(w[0]), "r"(w[1]) : "memory");
}
RNNC_INLINE void st_global(void* to, const u32 (&w)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}

// Relaxed loads and stores at GPU scope go to L2: an L1 cache may hold what the address held
// before.
RNNC_INLINE int ld_relaxed_gpu(const int* from) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE u32 ld_relaxed_gpu(const u32* from) {
  u32 word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
RNNC_INLINE u64 ld_relaxed_gpu(const u64* from) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE float ld_relaxed_gpu(const float* from) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE double ld_relaxed_gpu(const double* from) {
  double value;
  asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE uint4 ld_relaxed_gpu_v4(const char* from) {
  uint4 words;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from)
               : "memory");
  return words;
}
RNNC_INLINE void st_relaxed_gpu(char* to, u32 word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}
RNNC_INLINE void st_relaxed_gpu(char* to, u64 word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

// Counters that other blocks, or the driver, read and write.
RNNC_INLINE u32 ld_acquire_gpu(const u32* from) {
  u32 word;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
RNNC_INLINE void red_add_relaxed_gpu(u32* to, u32 value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
RNNC_INLINE void red_add_release_gpu(u32* to, u32 value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// Additions that nobody waits for. Those of one thread to one address keep their order.
RNNC_INLINE void red_add(float* to, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}
RNNC_INLINE void red_add(double* to, double value) {
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(to), "d"(value) : "memory");
}

RNNC_INLINE void prefetch_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

}  // namespace rnnc
