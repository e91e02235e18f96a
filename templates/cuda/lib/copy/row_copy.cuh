// RowCopy: copies of a step's rows from global to shared memory, several steps ahead.
//
// The copies of a step are one cp.async group. Groups complete in order and hold no registers, so a
// block can be several memory round trips ahead. A thread reads what others copied: a barrier lies
// between the wait and the first read.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// A thread's part of copying `rows` rows of one head, `elements` per unit.
template <int elements, int threads, int rows, int head_dim>
struct RowCopy {
  static constexpr int kRows = rows;
  static constexpr int kUnitBytes = elements * static_cast<int>(sizeof(Element));
  static constexpr int kHeadBytes = head_dim * kUnitBytes;
  static constexpr int kAccess = access_bytes(kHeadBytes);
  // The padding puts the same unit of four rows into different banks.
  static constexpr int kPitch =
      elements ? round_up(kHeadBytes, 128) + round_up(4 * kUnitBytes, 16) : 0;
  static constexpr int kUsed = kHeadBytes;  // of a row's pitch
  static constexpr int kBytes = rows * kPitch;
  static constexpr int kPieces = kHeadBytes / kAccess;
  static constexpr int kCopies = ceil_div(rows * kPieces, threads);

  int row[at_least_one(kCopies)], byte[at_least_one(kCopies)];  // of the source
  int offset_bytes[at_least_one(kCopies)];                      // of the destination; -1: none

  // For rows at first_row and the places after it. One beyond the batch is replaced by that at 0.
  template <typename Arguments>
  RNNC_MEMBER void prepare(const Arguments& a, int64 first_row) {
    repeat<kCopies>([&](int i) {
      const int piece = threadIdx.x + i * threads, row_idx = piece / kPieces;
      const int place = static_cast<int>(first_row) + row_idx;
      row[i] = launder(row_at(a, place < a.batch ? place : 0));
      byte[i] = launder(piece % kPieces * kAccess);
      offset_bytes[i] = launder(row_idx < rows ? row_idx * kPitch + piece % kPieces * kAccess : -1);
    });
  }
  // `from` is the head's first unit of row 0; rows are row_stride elements apart.
  RNNC_MEMBER void issue(char* to, const Element* from, int64 row_stride) const {
    repeat<kCopies>([&](int i) {
      const char* bytes = reinterpret_cast<const char*>(from + row[i] * row_stride) + byte[i];
      if (rows * kPieces % threads == 0 || offset_bytes[i] >= 0) {
        cp_async<kAccess>(to + offset_bytes[i], bytes);
      }
    });
  }
  // The elements of one unit of one row.
  static RNNC_MEMBER Vec<Element, elements> read(const char* stage, int offset_bytes) {
    Vec<Element, elements> vec;
    vec.read(stage + offset_bytes);
    return vec;
  }
  static RNNC_MEMBER int offset(int row, int unit) { return row * kPitch + unit * kUnitBytes; }
};

}  // namespace rnnc
