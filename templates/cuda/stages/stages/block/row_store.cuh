// RowStore: stores of a step's rows to global memory by way of shared memory.
//
// A thread has a few values of a unit: too few for a wide store, if their bytes are no power of two.
// So threads write them to shared memory, and after a barrier store whole pieces of rows. Of five
// two-byte values each store would have written a sixth of a sector.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// The first stage ahead of which all warps meet; 0 if there is none.
RNNC_CONSTEXPR int first_meeting() {
  for (int stage = 1; stage < Cell::kStages; ++stage) {
    if (exchanges_before(stage)) return stage;
  }
  return 0;
}

// A thread's part of storing `rows` rows of one head, `elements` per unit; a warp has `warp_units`.
template <int elements, int threads, int rows, int head_dim, int warp_units>
struct RowStore : RowCopy<elements, threads, rows, head_dim> {
  using Copy = RowCopy<elements, threads, rows, head_dim>;
  // Whether the values of a unit take many stores; else threads store them themselves. Of three
  // stores, as of the gates of a GRU, the way by shared memory took longer.
  static constexpr bool kUsed =
      first_meeting() > 0 && Copy::kUnitBytes > 3 * access_bytes(Copy::kUnitBytes);
  static constexpr int kBytes = kUsed ? Copy::kBytes : 0;
  // Whether every unit of every thread has a place, so that no thread asks if its own has one. Rows
  // beyond the batch have one too.
  static constexpr bool kHasAll = head_dim % warp_units == 0;

  // Of the destinations, from the head's first unit of row 0.
  int64 to_bytes[at_least_one(Copy::kCopies)];

  // Rows are row_stride elements apart in memory.
  template <typename Arguments>
  RNNC_MEMBER void prepare(const Arguments& a, int64 first_row, int64 row_stride) {
    if constexpr (kUsed) {
      Copy::prepare(a, first_row);
      repeat<Copy::kCopies>([&](int i) {
        const int row = (threadIdx.x + i * threads) / Copy::kPieces;
        if (first_row + row >= a.batch) this->offset_bytes[i] = -1;
        to_bytes[i] = launder(this->row[i] * row_stride * int64{sizeof(Element)} + this->byte[i]);
      });
    }
  }
  // The values of a unit of a row: to shared memory, or else to their place in global memory, where
  // only rows of the batch have one.
  template <typename Values>
  static RNNC_MEMBER void give(const Values& values, bool valid, char* own_rows, int row, int unit,
                               Element* to) {
    if constexpr (kUsed) {
      if (kHasAll || valid) write_aligned(values, own_rows + Copy::offset(row, unit));
    } else {
      if (valid) values.store(to);
    }
  }
  // `to` is the head's first unit of row 0.
  RNNC_MEMBER void store(const char* from, Element* to) const {
    if constexpr (kUsed) {
      // All are read ahead of the first store, which waits for what it reads.
      Vec<Element, Copy::kAccess / static_cast<int>(sizeof(Element))> piece[Copy::kCopies];
      repeat<Copy::kCopies>(
          [&](int i) { piece[i].read(from + maximum(this->offset_bytes[i], 0)); });
      repeat<Copy::kCopies>([&](int i) {
        if (this->offset_bytes[i] >= 0) piece[i].store(reinterpret_cast<char*>(to) + to_bytes[i]);
      });
    }
  }
};

}  // namespace rnnc
