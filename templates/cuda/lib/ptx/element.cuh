// Element: how a number lies in memory; real: what it is computed in. Conversions and wide loads.
//
// The two-byte types are spelled here, in a few PTX instructions, so that no header of the CUDA
// toolkit is needed to compile a kernel.
#pragma once

#define RNNC_INLINE static __device__ __forceinline__
#define RNNC_MEMBER __device__ __forceinline__
#define RNNC_CONSTEXPR static __device__ constexpr

namespace rnnc {

using u16 = unsigned short;
using u32 = unsigned int;
using int64 = long long;

// body(Index<0>{}), …, body(Index<n - 1>{}): a loop whose index is a constant of the language, so
// that arrays stay in registers whatever the compiler decides to unroll.
template <int i>
struct Index {
  static constexpr int value = i;
};
template <int n, int i = 0, typename Body>
RNNC_INLINE void unroll(const Body& body) {
  if constexpr (i < n) {
    body(Index<i>{});
    unroll<n, i + 1>(body);
  }
}

template <typename T, int n>
RNNC_INLINE void assign(T (&to)[n], const T (&from)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

struct bfloat16 {
  u16 bits;
};

struct float16 {
  u16 bits;
};

RNNC_INLINE float to_real(float x) { return x; }
RNNC_INLINE double to_real(double x) { return x; }
RNNC_INLINE float to_real(bfloat16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }
RNNC_INLINE float to_real(float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

template <typename T>
RNNC_INLINE T to_element(float x) {
  return x;
}
template <typename T>
RNNC_INLINE T to_element(double x) {
  return x;
}
template <>
RNNC_MEMBER bfloat16 to_element<bfloat16>(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
}
template <>
RNNC_MEMBER float16 to_element<float16>(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
}

// Two neighbours in one word, the first in the low half.
RNNC_INLINE u32 pack(bfloat16, float first, float second) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
RNNC_INLINE u32 pack(float16, float first, float second) {
  u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

// The widest access, in bytes, that divides n bytes.
RNNC_CONSTEXPR int access_bytes(int n) { return n % 16 == 0 ? 16 : n % 8 == 0 ? 8 : n % 4 == 0 ? 4 : 2; }

// A value that the compiler must keep, where it would compute it anew at each use.
RNNC_INLINE int64 opaque(int64 x) {
  asm volatile("" : "+l"(x));
  return x;
}
RNNC_INLINE int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// A value of this thread that stays in a register. NOTE: taken from a lane, for the assembler computes
// anew, in every step, whatever it knows how to: even the thread's number, which takes 20 cycles.
RNNC_INLINE int held(int x) { return __shfl_sync(~0u, x, threadIdx.x & 31); }
RNNC_INLINE u32 held(u32 x) { return __shfl_sync(~0u, x, threadIdx.x & 31); }

// A value that is computed here and not where the compiler would use it first.
RNNC_INLINE float here(float x) {
  asm volatile("" : "+f"(x));
  return x;
}
RNNC_INLINE u32 here(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}

template <typename T>
RNNC_INLINE T* element_at(T* base, int64 bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<unsigned long long>(base) + bytes);
}

// Loads of data that nobody writes meanwhile, and stores, of a given width. NOTE: volatile, so that
// a load stays where it is written, ahead of its use.
RNNC_INLINE void load_words(u16 (&w)[1], const void* from) {
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(w[0]) : "l"(from));
}
RNNC_INLINE void load_words(u32 (&w)[1], const void* from) {
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(w[0]) : "l"(from));
}
RNNC_INLINE void load_words(u32 (&w)[2], const void* from) {
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(from));
}
RNNC_INLINE void load_words(u32 (&w)[4], const void* from) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(from));
}
RNNC_INLINE void store_words(void* to, const u16 (&w)[1]) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "h"(w[0]) : "memory");
}
RNNC_INLINE void store_words(void* to, const u32 (&w)[1]) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(w[0]) : "memory");
}
RNNC_INLINE void store_words(void* to, const u32 (&w)[2]) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(w[0]), "r"(w[1]) : "memory");
}
RNNC_INLINE void store_words(void* to, const u32 (&w)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}

template <int bytes>
struct AccessOf;
template <>
struct AccessOf<2> {
  using type = u16;
};
template <>
struct AccessOf<4> {
  using type = u32;
};
template <>
struct AccessOf<8> {
  using type = uint2;
};
template <>
struct AccessOf<16> {
  using type = uint4;
};

// n neighbours that move together, aligned as the widest access that divides them. They stay packed
// as they came until one is asked for: unpacking at the load would wait for it.
template <typename T, int n>
struct Row {
  static constexpr int kBytes = n * static_cast<int>(sizeof(T));
  static constexpr int kAccess = access_bytes(kBytes);
  using Word = typename AccessOf<kBytes % 4 ? 2 : 4>::type;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  static constexpr int kEach = kAccess / static_cast<int>(sizeof(Word));  // words of an access
  Word words[kWords];

  RNNC_MEMBER void load(const void* from) {
#pragma unroll
    for (int i = 0; i < kWords; i += kEach) {
      Word access[kEach];
      load_words(access, static_cast<const char*>(from) + i * sizeof(Word));
#pragma unroll
      for (int k = 0; k < kEach; ++k) words[i + k] = access[k];
    }
  }
  RNNC_MEMBER void read(const char* shared) {
    using Access = typename AccessOf<kAccess>::type;
#pragma unroll
    for (int i = 0; i < kWords; i += kEach) {
      const Access access = *reinterpret_cast<const Access*>(shared + i * sizeof(Word));
      memcpy(words + i, &access, sizeof access);
    }
  }
  RNNC_MEMBER void store(void* to) const {
#pragma unroll
    for (int i = 0; i < kWords; i += kEach) {
      Word access[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) access[k] = words[i + k];
      store_words(static_cast<char*>(to) + i * sizeof(Word), access);
    }
  }

  RNNC_MEMBER auto operator[](int i) const {
    if constexpr (sizeof(T) == 8) {
      return __hiloint2double(words[2 * i + 1], words[2 * i]);
    } else if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i]);
    } else if constexpr (sizeof(Word) == 4) {
      return to_real(T{static_cast<u16>(i % 2 ? words[i / 2] >> 16 : words[i / 2] & 0xffffu)});
    } else {
      return to_real(T{words[i]});
    }
  }
  template <typename Real>
  RNNC_MEMBER void set(const Real (&values)[n]) {
    if constexpr (sizeof(T) == 8) {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        words[2 * i] = __double2loint(values[i]);
        words[2 * i + 1] = __double2hiint(values[i]);
      }
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < n; ++i) words[i] = __float_as_uint(values[i]);
    } else if constexpr (sizeof(Word) == 4) {
#pragma unroll
      for (int i = 0; i < n / 2; ++i) words[i] = pack(T{}, values[2 * i], values[2 * i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) words[i] = to_element<T>(values[i]).bits;
    }
  }
};

template <typename T>
struct Row<T, 0> {
  RNNC_MEMBER void load(const void*) {}
  RNNC_MEMBER void read(const char*) {}
  RNNC_MEMBER void store(void*) const {}
  RNNC_MEMBER real operator[](int) const { return 0; }
  RNNC_MEMBER void set(const real (&)[1]) {}
};

}  // namespace rnnc
