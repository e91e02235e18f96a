// Short names for types and qualifiers, helpers on integers, and loops whose index is a constant.
#pragma once

#define RNNC_INLINE static __device__ __forceinline__
#define RNNC_MEMBER __device__ __forceinline__
#define RNNC_CONSTEXPR static __device__ constexpr

namespace rnnc {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using int64 = long long;

RNNC_CONSTEXPR int at_least_one(int n) { return n > 0 ? n : 1; }
RNNC_CONSTEXPR int minimum(int a, int b) { return a < b ? a : b; }
RNNC_CONSTEXPR int maximum(int a, int b) { return a > b ? a : b; }
RNNC_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
RNNC_CONSTEXPR int round_up(int a, int b) { return ceil_div(a, b) * b; }
// The widest access, in bytes, that divides n bytes.
RNNC_CONSTEXPR int access_bytes(int n) {
  return n % 16 == 0 ? 16 : n % 8 == 0 ? 8 : n % 4 == 0 ? 4 : 2;
}
// count(0) + … + count(n - 1): where part n begins, if part i has count(i) elements.
template <typename Count>
RNNC_CONSTEXPR int sum_before(int n, const Count& count) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += count(i);
  return sum;
}

// repeat<n>(body) calls body(0), …, body(n - 1): an unrolled loop.
template <int n, typename Body>
RNNC_INLINE void repeat(const Body& body) {
#pragma unroll
  for (int i = 0; i < n; ++i) body(i);
}

// unroll<n>(body) calls body(Index<0>{}), …, body(Index<n - 1>{}). The index is a constant
// expression: the body may use it where C++ wants one.
template <int i>
struct Index {
  static constexpr int value = i;
  RNNC_MEMBER constexpr operator int() const { return i; }
};
template <int n, int i = 0, typename Body>
RNNC_INLINE void unroll(const Body& body) {
  if constexpr (i < n) {
    body(Index<i>{});
    unroll<n, i + 1>(body);
  }
}

// One of two types.
template <bool first, class One, class Other>
struct EitherOf {
  using Type = One;
};
template <class One, class Other>
struct EitherOf<false, One, Other> {
  using Type = Other;
};
template <bool first, class One, class Other>
using Either = typename EitherOf<first, One, Other>::Type;

template <typename T, int n>
RNNC_INLINE void assign(T (&to)[n], const T (&from)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

// The element `bytes` after `base`. The sum of a uniform pointer and an offset per thread costs
// fewer registers than a pointer per thread.
template <typename T>
RNNC_INLINE T* element_at(T* base, int64 bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<u64>(base) + bytes);
}

// A block's dynamic shared memory.
extern __shared__ __align__(128) char shared[];

}  // namespace rnnc
