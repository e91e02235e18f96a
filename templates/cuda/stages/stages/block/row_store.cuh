// RowStore: stores of a step's rows to global memory by way of shared memory.
//
// A thread has a few values of a unit: too few for a wide store, if their bytes are no power of two.
// So threads write them to shared memory, and after a barrier store whole pieces of rows. Of five
// two-byte values each store would have written a sixth of a sector.
#pragma once

#include "lib/copy/row_copy.cuh"
#include "lib/stages/item.cuh"
#include "lib/stages/predicated.cuh"

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

  // Of the destinations, in the step that was stored last.
  char* at[at_least_one(Copy::kCopies)];
  int stores[at_least_one(Copy::kCopies)];  // whether the thread stores this piece
  int64 stride;  // to the step that is stored after it, in bytes

  // Of a tensor, whose rows are row_stride elements apart in memory, from the head's first unit on;
  // null: it is not stored. The first step to store lies at `first` in memory, of `step_size`
  // elements each, and the others come in the order of `step_stride`.
  template <typename Arguments>
  RNNC_MEMBER void begin(const Arguments& a, int64 first_row, int64 row_stride, Element* tensor,
                         int64 first, int64 step_size, int64 step_stride) {
    if constexpr (kUsed) {
      Copy::prepare(a, first_row);
      stride = step_stride * int64{sizeof(Element)};
      repeat<Copy::kCopies>([&](int i) {
        const int row = (threadIdx.x + i * threads) / Copy::kPieces;
        stores[i] = pin(int{tensor && this->offset_bytes[i] >= 0 && first_row + row < a.batch});
        this->offset_bytes[i] = pin(maximum(this->offset_bytes[i], 0));
        at[i] = reinterpret_cast<char*>(tensor + first * step_size + this->row[i] * row_stride) +
                this->byte[i] - stride;
      });
    }
  }
  // Keeps the stride in registers, as that of a ResultStore.
  RNNC_MEMBER void keep_stride() {
    if constexpr (kUsed) {
      repeat<Copy::kCopies>([&](int i) { at[i] += stride; });
      stride = pin(stride);
      repeat<Copy::kCopies>([&](int i) { at[i] -= stride; });
    }
  }
  // Writes the values of a unit of a row to shared memory.
  template <typename Values>
  static RNNC_MEMBER void give(const Values& values, bool valid, char* own_rows, int row,
                               int unit) {
    if (kHasAll || valid) write_aligned(values, own_rows + Copy::offset(row, unit));
  }
  // Stores the rows of the next step, if it is to be stored.
  RNNC_MEMBER void store(const char* from, bool holds) {
    if constexpr (kUsed) {
      // All are read ahead of the first store, which waits for what it reads.
      Vec<Element, Copy::kAccess / static_cast<int>(sizeof(Element))> piece[Copy::kCopies];
      repeat<Copy::kCopies>([&](int i) { piece[i].read(from + this->offset_bytes[i]); });
      repeat<Copy::kCopies>([&](int i) {
        at[i] += stride;
        st_global_if(stores[i] && holds, at[i], piece[i].words);
      });
    }
  }
};

}  // namespace rnnc
