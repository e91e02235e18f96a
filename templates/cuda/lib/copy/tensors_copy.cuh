// TensorsCopy: copies of the same rows of several tensors from global to shared memory, several
// steps ahead. The rows of all tensors are one sequence of pieces, which the threads share.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// The units and rows of `Rows`, a RowCopy or WarpCopy, of each tensor, copied by `threads` threads.
// In a stage the tensors lie one after the other.
template <class Rows, int tensors, int threads>
struct TensorsCopy {
  static constexpr int kBytes = tensors * Rows::kBytes;         // per step
  static constexpr int kPieces = Rows::kRows * Rows::kPieces;  // per tensor
  static constexpr int kCopies = ceil_div(tensors * kPieces, threads);

  const char* from[at_least_one(kCopies)];  // of the last step that was copied
  int64 stride[at_least_one(kCopies)];      // to the step after it, in bytes
  int offset_bytes[at_least_one(kCopies)];  // of the destination

  // `thread` is one of those that copy. Units are those of a head from first_unit on; rows are at
  // the places first_row, first_row + row_step, …. first_of(k, row) is the address of the head's
  // first unit in a row of tensor k, at the step that is copied first; stride_of(k) is the distance
  // to the next step, in elements.
  // NOTE: threads beyond the last piece copy some piece again, and the place of units that do not
  // exist gets the head's first ones: a condition per copy costs a tenth of a short step.
  template <typename Arguments, typename First, typename Stride>
  RNNC_MEMBER void start(const Arguments& a, int thread, int first_unit, int64 first_row,
                         int row_step, const First& first_of, const Stride& stride_of) {
    repeat<kCopies>([&](int i) {
      const int piece = (thread + i * threads) % at_least_one(tensors * kPieces);
      const int tensor = piece / kPieces, row_idx = piece % kPieces / Rows::kPieces;
      const int byte = piece % Rows::kPieces * Rows::kAccess;
      const int head_byte = first_unit * Rows::kUnitBytes + byte;
      offset_bytes[i] = launder(tensor * Rows::kBytes + row_idx * Rows::kPitch + byte);
      const int64 place = first_row + row_idx * row_step;
      const Element* const first = first_of(tensor, row_at(a, place < a.batch ? place : 0));
      const int in_head = head_byte < Rows::kHeadBytes ? head_byte : 0;
      stride[i] = kept(stride_of(tensor) * int64{sizeof(Element)});
      from[i] = reinterpret_cast<const char*>(first) + in_head - stride[i];
    });
  }
  // Copies the next step's rows; the caller commits the group of copies. NOTE: the additions come
  // first, as in WarpCopy.
  RNNC_MEMBER void issue(char* to) {
    repeat<kCopies>([&](int i) { from[i] += stride[i]; });
    repeat<kCopies>([&](int i) { cp_async<Rows::kAccess>(to + offset_bytes[i], from[i]); });
  }
  // The element of tensor k at an offset that `Rows` gave.
  static RNNC_MEMBER Vec<Element, 1> read(const char* stage, int k, int offset_bytes) {
    return Rows::read(stage + k * Rows::kBytes, offset_bytes);
  }
};

}  // namespace rnnc
