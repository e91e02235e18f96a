// WarpCopy: copies of a warp's own part of a step's rows from global to shared memory, several
// steps ahead. A warp reads only what it copied itself, so no barrier of the block is needed.
//
// Every thread advances its own pointers through the tensor: two additions per step, ahead of the
// copies. NOTE: after them, the addition would wait until the copies have read their addresses.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// `units` neighbouring units of `rows` batch rows, `elements` per unit.
template <int elements, int units, int rows, int head_dim>
struct WarpCopy {
  static constexpr int kRows = rows;
  static constexpr int kUnitBytes = elements * static_cast<int>(sizeof(Element));
  static constexpr int kHeadBytes = head_dim * kUnitBytes;
  static constexpr int kSpan = units * kUnitBytes;  // per row
  static constexpr int kAccess = minimum(access_bytes(kSpan), access_bytes(kHeadBytes));
  // The padding puts the same unit of several rows into different banks; 16 bytes per row need
  // none.
  static constexpr int kPitch = !elements ? 0 : kSpan <= 16 ? 16 : round_up(kSpan, 32) + 16;
  static constexpr int kUsed = kSpan;  // of a row's pitch
  static constexpr int kBytes = rows * kPitch;
  static constexpr int kPieces = at_least_one(kSpan / kAccess);
  static constexpr int kCopies = elements ? ceil_div(rows * kPieces, 32) : 0;

  // Addresses in shared memory of the pieces that this lane copies.
  struct Places {
    u32 at[at_least_one(kCopies)];
  };

  // The pieces that this lane copies.
  struct Pieces {
    int row[at_least_one(kCopies)], byte[at_least_one(kCopies)];  // of the source
    int offset_bytes[at_least_one(kCopies)];                      // of the destination; -1: none

    // For rows at the places first_row, first_row + row_step, …. One beyond the batch is replaced
    // by that at 0; units beyond the head are not copied.
    template <typename Arguments>
    RNNC_MEMBER void prepare(const Arguments& a, int lane, int first_unit, int64 first_row,
                             int row_step) {
      repeat<kCopies>([&](int i) {
        const int piece = lane + 32 * i, row_idx = piece / kPieces;
        const int row_byte = piece % kPieces * kAccess;
        const int place = static_cast<int>(first_row) + row_idx * row_step;
        row[i] = row_at(a, place < a.batch ? place : 0);
        byte[i] = first_unit * kUnitBytes + row_byte;
        const bool in_bounds = row_idx < rows && byte[i] < kHeadBytes;
        offset_bytes[i] = launder(in_bounds ? row_idx * kPitch + row_byte : -1);
      });
    }
    // Where they go in a stage, whose first byte is at the address `to`.
    RNNC_MEMBER Places in(u32 to) const {
      Places places;
      repeat<kCopies>([&](int i) { places.at[i] = launder(to + offset_bytes[i]); });
      return places;
    }
  };

  const char* from[at_least_one(kCopies)];  // of the last step that was copied

  // `first` is the head's first unit of row 0 at the step before the first that is copied; rows are
  // row_stride elements apart.
  RNNC_MEMBER void start(const Pieces& pieces, const Element* first, int64 row_stride) {
    repeat<kCopies>([&](int i) {
      from[i] = reinterpret_cast<const char*>(first + pieces.row[i] * row_stride) + pieces.byte[i];
    });
  }
  // Copies into a stage, from its byte `offset` on.
  template <int offset = 0>
  RNNC_MEMBER void issue(const Pieces& pieces, const Places& places) const {
    repeat<kCopies>([&](int i) {
      cp_async_if<kAccess, offset>(pieces.offset_bytes[i], places.at[i], from[i]);
    });
  }
  RNNC_MEMBER void advance(int64 time_stride) {
    repeat<kCopies>([&](int i) { from[i] += time_stride * static_cast<int64>(sizeof(Element)); });
  }
  // The elements of one unit of one row.
  static RNNC_MEMBER Vec<Element, elements> read(const char* stage, int offset_bytes) {
    Vec<Element, elements> vec;
    vec.read(stage + offset_bytes);
    return vec;
  }
  // Both indices count from the warp's first row and unit.
  static RNNC_MEMBER int offset(int row_idx, int unit_idx) {
    return row_idx * kPitch + unit_idx * kUnitBytes;
  }
};

}  // namespace rnnc
