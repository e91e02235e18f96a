// Vectors and rows of `real`: what all other headers use.
#pragma once

#include <cstdint>
#include <cstring>

#define RNNC_INLINE static inline __attribute__((always_inline))
// A function that several loops call: inlined into each, it would be compiled as often.
#define RNNC_ONCE __attribute__((noinline))

namespace rnnc {

// The widest vectors of the processor. A loop asks for them by their lanes: a compiler may take
// narrower ones, which were faster on earlier processors.
#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif
constexpr int64_t kLanes = kVectorBytes / sizeof(real);
typedef real Vector __attribute__((vector_size(kVectorBytes)));

// A vector at any address.
typedef real LooseVector
    __attribute__((vector_size(kVectorBytes), aligned(alignof(real)), may_alias));

RNNC_INLINE void copy_row(const real* from, real* to, int64_t n) {
  std::memcpy(to, from, (size_t)n * sizeof(real));
}

RNNC_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace rnnc
