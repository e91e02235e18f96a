// Vec: neighbouring elements of a tensor, loaded and stored with the widest accesses.
#pragma once

#include "lib/ptx/element.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

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

// n neighbouring elements that are loaded and stored together, aligned to the widest access that
// divides their bytes. They stay packed until one is read: unpacking at the load would wait for it.
template <typename T, int n>
struct Vec {
  static constexpr int kBytes = n * static_cast<int>(sizeof(T));
  static constexpr int kAccess = access_bytes(kBytes);
  using Word = typename AccessOf<kBytes % 4 ? 2 : 4>::type;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  static constexpr int kAccessWords = kAccess / static_cast<int>(sizeof(Word));
  Word words[kWords];

  RNNC_MEMBER void load(const void* from) {  // from global memory
#pragma unroll
    for (int i = 0; i < kWords; i += kAccessWords) {
      Word access[kAccessWords];
      ld_global_nc(access, static_cast<const char*>(from) + i * sizeof(Word));
      repeat<kAccessWords>([&](int k) { words[i + k] = access[k]; });
    }
  }
  RNNC_MEMBER void read(const void* shared) {
    using Access = typename AccessOf<kAccess>::type;
#pragma unroll
    for (int i = 0; i < kWords; i += kAccessWords) {
      const Access access = static_cast<const Access*>(shared)[i / kAccessWords];
      memcpy(words + i, &access, sizeof access);
    }
  }
  RNNC_MEMBER void write(void* shared) const {
    using Access = typename AccessOf<kAccess>::type;
#pragma unroll
    for (int i = 0; i < kWords; i += kAccessWords) {
      memcpy(static_cast<Access*>(shared) + i / kAccessWords, words + i, sizeof(Access));
    }
  }
  RNNC_MEMBER void store(void* to) const {
#pragma unroll
    for (int i = 0; i < kWords; i += kAccessWords) {
      Word access[kAccessWords];
      repeat<kAccessWords>([&](int k) { access[k] = words[i + k]; });
      st_global(static_cast<char*>(to) + i * sizeof(Word), access);
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
      repeat<n>([&](int i) {
        words[2 * i] = __double2loint(values[i]);
        words[2 * i + 1] = __double2hiint(values[i]);
      });
    } else if constexpr (sizeof(T) == 4) {
      repeat<n>([&](int i) { words[i] = __float_as_uint(values[i]); });
    } else if constexpr (sizeof(Word) == 4) {
      repeat<n / 2>([&](int i) { words[i] = pack(T{}, values[2 * i], values[2 * i + 1]); });
    } else {
      repeat<n>([&](int i) { words[i] = to_element<T>(values[i]).bits; });
    }
  }
};

template <typename T>
struct Vec<T, 0> {
  RNNC_MEMBER void load(const void*) {}
  RNNC_MEMBER void read(const void*) {}
  RNNC_MEMBER void store(void*) const {}
  RNNC_MEMBER real operator[](int) const { return 0; }
  RNNC_MEMBER void set(const real (&)[1]) {}
};

}  // namespace rnnc
