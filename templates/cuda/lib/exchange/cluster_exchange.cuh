// ClusterExchange: the B operand of a cluster's products, in the shared memory of every block.
#pragma once

#include "lib/mma/k_tile.cuh"

namespace rnnc {

// The buffer in shared memory that the blocks of a cluster push h to: k_tiles of K, of all rows.
//
// What a warp pushes to a peer is contiguous: the 16-byte pieces of all rows that hold the same
// units. The network between blocks is limited by packets more than by bytes. Even rows precede odd
// ones, since a warp that shares its units with another warp has one or the other. The position of
// a pair of rows is permuted by the piece's index, so that loads of fragments have no bank
// conflicts.
template <int k_tiles>
struct ClusterExchange {
  static constexpr int kRowsKTileBytes = kColumns * kKTile * static_cast<int>(sizeof(Element));
  static constexpr int kBytes = k_tiles * kRowsKTileBytes;

  // The offset in bytes of element k of a row.
  static RNNC_MEMBER int offset(int row, int k) {
    const int byte = k * static_cast<int>(sizeof(Element)), piece = byte >> 4;
    const int line = (row & 1) << 2 | ((row >> 1) ^ (piece & 3));
    return (piece << 3 | line) << 4 | (byte & 15);
  }
  // The offset of the four words that a lane multiplies in k_tile 0: of row lane / 4, quad lane
  // % 4.
  static RNNC_MEMBER int first_fragment(int lane) {
    return offset(lane >> 2, (lane & 3) * 4 * kPack);
  }
};

}  // namespace rnnc
