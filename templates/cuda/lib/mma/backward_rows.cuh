// Rows of R on their way into a backward's registers, and the order in which its product takes them.
#pragma once

#include "lib/kernels/copy.cuh"
#include "lib/mma/matrix.cuh"

namespace rnnc {

// K of a product with R transposed, for each source: `units` units of every pair (gate, source), one
// pair after the other, and padding to whole chunks.
template <int units>
struct PairUnits {
  RNNC_CONSTEXPR int chunks(int source) { return ceil_div(kSourcePairs[source] * units, kChunk); }
  RNNC_CONSTEXPR int first_chunk(int source) {
    int before = 0;
    for (int i = 0; i < source; ++i) before += chunks(i);
    return before;
  }

  // The row of R that is row k of all chunks, of units from first_unit on: out of a matrix; none
  // where k is padding.
  static RNNC_MEMBER const Element* row_of(const Element* R, int64 heads, int64 head,
                                           int first_unit, int k) {
    for (int source = 0; source < kSources; ++source) {
      const int own = k - first_chunk(source) * kChunk;
      const int pair = own / units, out = first_unit + own % units;
      if (own >= 0 && pair < kSourcePairs[source] && out < kHeadDim) {
        const int matrix = kPairMatrix[kSourceFirstPair[source] + pair];
        return R + ((matrix * heads + head) * kHeadDim + out) * kHeadDim;
      }
    }
    return nullptr;
  }

  // Some chunks of those rows into shared memory, by all of a block's threads, `pitch` bytes a row.
  template <int count, int pitch, int threads>
  static RNNC_MEMBER void stage(char* rows, const Element* R, int64 heads, int64 head,
                                int first_unit, int first) {
    constexpr int row_bytes = kHeadDim * static_cast<int>(sizeof(Element));
    constexpr int access = access_bytes(row_bytes), pieces = row_bytes / access;
#pragma unroll 1
    for (int i = threadIdx.x; i < count * kChunk * pieces; i += threads) {
      const int k = i / pieces, byte = i % pieces * access;
      const char* from = reinterpret_cast<const char*>(
          row_of(R, heads, head, first_unit, first * kChunk + k));
      char* to = rows + k * pitch + byte;
      if (from) {
        copy_async<access>(to, from + byte);
      } else {
        for (int half = 0; half < access; half += 2) *reinterpret_cast<u16*>(to + half) = 0;
      }
    }
    commit_copies();
    wait_copies<0>();
    __syncthreads();
  }
};

}  // namespace rnnc
