// R and the states of a block whose head dim is compiled in, as fragments: R is the A operand, kColumns
// batch rows are B.
#pragma once

#include "lib/mma/multiply.cuh"

namespace rnnc {

constexpr int kColumns = 8;  // columns of a product: the batch rows, and padding

// Four words of R: word i holds the elements k[i] .. k[i] + kPack - 1 of the row that begins at
// matrix[i][from[i]]; it is zero where it is not given, or beyond the end. `rounding` includes them.
// NOTE: no .nc, so that a barrier between two calls holds the loads of the second.
RNNC_INLINE void load_weights(u32 (&words)[4], const Element* const (&matrix)[4],
                              const int (&from)[4], const int (&k)[4], const bool (&given)[4],
                              Rounding& rounding) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool inside = given[i] && k[i] < kHeadDim;
    const Element* at = matrix[i] + (inside ? from[i] + k[i] : 0);
    if constexpr (kHeadDim % kPack == 0) {
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(words[i]) : "l"(at) : "memory");
      words[i] = as_weight(inside ? words[i] : 0u, rounding);
    } else {
      u16 first, second;
      asm volatile("ld.global.u16 %0, [%1];" : "=h"(first) : "l"(at) : "memory");
      asm volatile("ld.global.u16 %0, [%1];"
                   : "=h"(second)
                   : "l"(at + (k[i] + 1 < kHeadDim))
                   : "memory");
      words[i] = inside ? first | (k[i] + 1 < kHeadDim ? static_cast<u32>(second) << 16 : 0u) : 0u;
    }
  }
}

// The exchange buffer of a block: kColumns batch rows of `elements` each in shared memory. A row is
// a multiple of 128 bytes; its 16-byte pieces are permuted by the row's number, so that neither the
// loads of fragments nor the stores of single units meet in a bank.
template <int elements>
struct Exchange {
  static constexpr int kRowBytes = round_up(elements * static_cast<int>(sizeof(Element)), 128);
  static constexpr int kBytes = kColumns * kRowBytes;

  // Where element k of a row lies, in bytes.
  static RNNC_MEMBER int offset(int row, int k) {
    const int byte = k * static_cast<int>(sizeof(Element));
    return row * kRowBytes + (byte ^ (((row & 1) << 2 | row >> 1) << 4));
  }
  // The four words of a chunk that a lane multiplies, those of row lane / 4 and quad lane % 4, lie at
  // this offset for chunk 0. Two chunks make 128 bytes, within which the pieces are permuted.
  static RNNC_MEMBER int first_fragment(int lane) {
    return offset(lane >> 2, (lane & 3) * 4 * kPack);
  }
  // NOTE: volatile, as are the products, so that a few chunks are on their way and not all of them,
  // for which there are no registers.
  static RNNC_MEMBER uint4 load(const char* buffer, int first, int chunk) {
    const char* at = buffer + (first ^ (chunk & 1) << 6) + (chunk >> 1) * 128;
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(static_cast<u32>(__cvta_generic_to_shared(at)))
                 : "memory");
    return words;
  }
};

// product(chunk, words) for every chunk, each loaded kLoadsAhead chunks before its turn.
constexpr int kLoadsAhead = 3;
template <int chunks, typename Load, typename Product>
RNNC_INLINE void for_chunks(const Load& load, const Product& product) {
  uint4 words[chunks < kLoadsAhead ? at_least_one(chunks) : kLoadsAhead];
  unroll<chunks < kLoadsAhead ? chunks : kLoadsAhead>([&](auto index) {
    words[decltype(index)::value] = load(decltype(index)::value);
  });
  unroll<chunks>([&](auto index) {
    constexpr int chunk = decltype(index)::value;
    const uint4 now = words[chunk % kLoadsAhead];
    if constexpr (chunk + kLoadsAhead < chunks) {
      words[chunk % kLoadsAhead] = load(chunk + kLoadsAhead);
    }
    product(index, now);
  });
}

}  // namespace rnnc
