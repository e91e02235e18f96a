// BlockExchange: the B operand of a block's products, in its own shared memory.
#pragma once

#include "lib/mma/k_tile.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

// kColumns rows of `elements` each. A row is a multiple of 128 bytes; its 16-byte pieces are
// permuted by the row index, so that neither loads of fragments nor stores of single units have
// bank conflicts.
template <int elements>
struct BlockExchange {
  static constexpr int kRowBytes = round_up(elements * static_cast<int>(sizeof(Element)), 128);
  static constexpr int kBytes = kColumns * kRowBytes;

  // The offset in bytes of element k of a row.
  static RNNC_MEMBER int offset(int row, int k) {
    const int byte = k * static_cast<int>(sizeof(Element));
    return row * kRowBytes + (byte ^ (((row & 1) << 2 | row >> 1) << 4));
  }
  // The offset of the four words that a lane multiplies in k_tile 0: of row lane / 4, quad lane
  // % 4. Two k_tiles are 128 bytes, within which the pieces are permuted.
  static RNNC_MEMBER int first_fragment(int lane) {
    return offset(lane >> 2, (lane & 3) * 4 * kPack);
  }
  // NOTE: a volatile load, as the products are volatile, so that only a few k_tiles are in
  // registers.
  static RNNC_MEMBER uint4 load(const char* buffer, int first_fragment, int k_tile) {
    return ld_shared_v4(
        shared_address(buffer + (first_fragment ^ (k_tile & 1) << 6) + (k_tile >> 1) * 128));
  }
};

}  // namespace rnnc
