// Rows of a step on their way from memory to shared memory, some steps before they are used.
//
// The copies of a step are one group; groups complete in order and hold no registers, so that a
// block can be several round trips to memory ahead. What one thread copies others read: between the
// wait and the first read lies a barrier.
#pragma once

#include "lib/ptx/cp_async.cuh"

namespace rnnc {

// A thread's share in copying kBlockRows rows, one head of each: `elements` a unit.
template <int elements, int threads>
struct RowCopy {
  static constexpr int kUnitBytes = elements * static_cast<int>(sizeof(Element));
  static constexpr int kRowBytes = kHeadDim * kUnitBytes;
  static constexpr int kAccess = access_bytes(kRowBytes);
  // The padding puts the same unit of four rows into different banks.
  static constexpr int kPitch =
      elements ? round_up(kRowBytes, 128) + round_up(4 * kUnitBytes, 16) : 0;
  static constexpr int kBytes = kBlockRows * kPitch;
  static constexpr int kPieces = kRowBytes / kAccess;
  static constexpr int kCopies = ceil_div(kBlockRows * kPieces, threads);

  int row[at_least_one(kCopies)], byte[at_least_one(kCopies)], slot[at_least_one(kCopies)];

  // Of rows from first_row; beyond the last, the first is copied in their place.
  RNNC_MEMBER void prepare(int64 first_row, int64 rows) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int piece = threadIdx.x + i * threads, own = piece / kPieces;
      const int wanted = static_cast<int>(first_row) + own;
      row[i] = opaque(wanted < rows ? wanted : 0);
      byte[i] = opaque(piece % kPieces * kAccess);
      slot[i] = opaque(own < kBlockRows ? own * kPitch + piece % kPieces * kAccess : -1);
    }
  }
  // `from` is the head's first unit of row 0; rows are row_size elements apart.
  RNNC_MEMBER void issue(char* to, const Element* from, int64 row_size) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const char* bytes = reinterpret_cast<const char*>(from + row[i] * row_size) + byte[i];
      if (kBlockRows * kPieces % threads == 0 || slot[i] >= 0) {
        copy_async<kAccess>(to + slot[i], bytes);
      }
    }
  }
  // A unit's elements of a row of the block.
  static RNNC_MEMBER Row<Element, elements> read(const char* rows, int at) {
    Row<Element, elements> found;
    found.read(rows + at);
    return found;
  }
  static RNNC_MEMBER int place(int row, int unit) { return row * kPitch + unit * kUnitBytes; }
};

}  // namespace rnnc
