// Vec: neighbouring elements of a tensor, loaded and stored with the widest accesses.
#pragma once

#include "lib/ptx/element.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

template <int bytes>
RNNC_INLINE auto access_of() {
  if constexpr (bytes == 2) return u16{};
  if constexpr (bytes == 4) return u32{};
  if constexpr (bytes == 8) return uint2{};
  if constexpr (bytes == 16) return uint4{};
}
template <int bytes>
using AccessOf = decltype(access_of<bytes>());

// n neighbouring elements that are loaded and stored together, aligned to the widest access that
// divides their bytes. They stay packed until one is read: unpacking at the load would wait for it.
template <typename T, int n>
struct Vec {
  static constexpr int kBytes = n * static_cast<int>(sizeof(T));
  static constexpr int kAccess = access_bytes(kBytes);
  using Word = AccessOf<kBytes % 4 ? 2 : 4>;
  using Access = AccessOf<kAccess>;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  static constexpr int kAccessWords = kAccess / static_cast<int>(sizeof(Word));
  Word words[kWords];

  RNNC_MEMBER void load(const void* from) {  // from global memory
    repeat<kWords / kAccessWords>([&](int i) {
      Word access[kAccessWords];
      ld_global_nc(access, static_cast<const Access*>(from) + i);
      repeat<kAccessWords>([&](int k) { words[i * kAccessWords + k] = access[k]; });
    });
  }
  RNNC_MEMBER void store(void* to) const {
    repeat<kWords / kAccessWords>([&](int i) {
      Word access[kAccessWords];
      repeat<kAccessWords>([&](int k) { access[k] = words[i * kAccessWords + k]; });
      st_global(static_cast<Access*>(to) + i, access);
    });
  }
  RNNC_MEMBER void read(const void* shared) {
    repeat<kWords / kAccessWords>([&](int i) {
      const Access access = static_cast<const Access*>(shared)[i];
      memcpy(words + i * kAccessWords, &access, sizeof access);
    });
  }
  RNNC_MEMBER void write(void* shared) const {
    repeat<kWords / kAccessWords>([&](int i) {
      memcpy(static_cast<Access*>(shared) + i, words + i * kAccessWords, sizeof(Access));
    });
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
  RNNC_MEMBER void clear_unless(bool keep) {
    repeat<kWords>([&](int i) { words[i] = keep ? words[i] : Word{0}; });
  }
};

template <typename T>
struct Vec<T, 0> {
  RNNC_MEMBER void load(const void*) {}
  RNNC_MEMBER void read(const void*) {}
  RNNC_MEMBER void store(void*) const {}
  RNNC_MEMBER real operator[](int) const { return 0; }
  RNNC_MEMBER void set(const real (&)[1]) {}
  RNNC_MEMBER void clear_unless(bool) {}
};

}  // namespace rnnc
