// A warp's own part of a step's rows on their way from memory to shared memory, some steps before
// they are used: what a warp copies it reads itself, so that no barrier of the block is needed.
//
// Every thread steps through the tensor with pointers of its own: two additions a step and no more.
#pragma once

namespace rnnc {

// `units` neighbours of some batch rows, `elements` a unit.
template <int elements, int units, int rows>
struct WarpCopy {
  static constexpr int kUnitBytes = elements * static_cast<int>(sizeof(Element));
  static constexpr int kSpan = units * kUnitBytes;  // of a row
  static constexpr int kAccess = smaller(access_bytes(kSpan), access_bytes(kHeadDim * kUnitBytes));
  // The padding puts the same unit of several rows into different banks; 16 bytes a row need none.
  static constexpr int kPitch = !elements ? 0 : kSpan <= 16 ? 16 : round_up(kSpan, 32) + 16;
  static constexpr int kBytes = rows * kPitch;
  static constexpr int kPieces = at_least_one(kSpan / kAccess);
  static constexpr int kCopies = elements ? ceil_div(rows * kPieces, 32) : 0;

  // Which pieces are this lane's.
  struct Pieces {
    int row[at_least_one(kCopies)], byte[at_least_one(kCopies)], slot[at_least_one(kCopies)];

    // Of rows first_row, first_row + distance, …; beyond the batch, its first is copied in their
    // place. Units beyond the head are not copied.
    RNNC_MEMBER void prepare(int lane, int first_unit, int64 first_row, int distance, int64 batch) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int piece = lane + 32 * i, own = piece / kPieces, within = piece % kPieces * kAccess;
        const int wanted = static_cast<int>(first_row) + own * distance;
        row[i] = wanted < batch ? wanted : 0;
        byte[i] = first_unit * kUnitBytes + within;
        slot[i] = opaque(own < rows && byte[i] < kHeadDim * kUnitBytes ? own * kPitch + within : -1);
      }
    }
  };

  const char* from[at_least_one(kCopies)];  // of the next step

  // `first` is the head's first unit of row 0 at the first step; rows are row_size elements apart.
  RNNC_MEMBER void start(const Pieces& pieces, const Element* first, int64 row_size) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      from[i] = reinterpret_cast<const char*>(first + pieces.row[i] * row_size) + pieces.byte[i];
    }
  }
  RNNC_MEMBER void issue(const Pieces& pieces, char* to) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (pieces.slot[i] >= 0) copy_async<kAccess>(to + pieces.slot[i], from[i]);
    }
  }
  RNNC_MEMBER void advance(int64 elements_apart) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      from[i] += elements_apart * static_cast<int64>(sizeof(Element));
    }
  }
  // A unit's elements of a row, both counted from the warp's first.
  static RNNC_MEMBER Row<Element, elements> read(const char* rows_of_step, int at) {
    Row<Element, elements> found;
    found.read(rows_of_step + at);
    return found;
  }
  static RNNC_MEMBER int place(int own_row, int own_unit) {
    return own_row * kPitch + own_unit * kUnitBytes;
  }
};

}  // namespace rnnc
