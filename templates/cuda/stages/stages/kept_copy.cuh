// KeptCopy: copies of rows of one tensor, several steps ahead, from addresses that a thread keeps.
//
// NOTE: an address that is computed from a step, a row and a unit takes eight instructions, and a
// condition on a copy a branch. Copies of five tensors took 250 cycles of a block's step, in which
// nothing else ran. An address that is kept takes an addition, and the copy a predicate.
#pragma once

#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/ld_st.cuh"
#include "lib/ptx/launder.cuh"

namespace rnnc {

// The pieces of `Rows`, a RowCopy.
template <class Rows>
struct KeptCopy {
  const char* from[at_least_one(Rows::kCopies)];  // in the step that was copied last
  int64 stride;                                   // to the step that is copied next, in bytes
  int there[at_least_one(Rows::kCopies)];         // -1: this thread has no such piece

  // `first` is the address of the head's first unit of row 0, at the step that is copied first; null:
  // nothing is copied. Rows and steps are so many elements apart.
  RNNC_MEMBER void begin(const Rows& rows, const Element* first, int64 row_stride,
                         int64 step_stride) {
    if constexpr (Rows::kUnitBytes > 0) {
      stride = step_stride * int64{sizeof(Element)};
      repeat<Rows::kCopies>([&](int i) {
        from[i] = reinterpret_cast<const char*>(first + rows.row[i] * row_stride) + rows.byte[i] -
                  stride;
        there[i] = pin(first ? rows.offset_bytes[i] : -1);
      });
    }
  }
  // Copies the pieces of the next step to `to`, in shared memory, if the step exists. They lie `away`
  // bytes from the step's place. NOTE: the additions come first, as in WarpCopy.
  RNNC_MEMBER void issue(u32 to, bool exists, int64 away = 0) {
    if constexpr (Rows::kUnitBytes > 0) {
      repeat<Rows::kCopies>([&](int i) { from[i] += stride; });
      repeat<Rows::kCopies>([&](int i) {
        cp_async_if<Rows::kAccess, 0>(exists ? there[i] : -1, to + there[i], from[i] + away);
      });
    }
  }
};

}  // namespace rnnc
