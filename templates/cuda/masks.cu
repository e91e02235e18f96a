// What a call with lengths and resets does besides its steps: makes the bytes that say how rows take
// steps, packs them, clears what no row runs, and gives products over all steps the states that each
// step began from.
#include "lib/ptx/types.cuh"

namespace rnnc {

constexpr int kThreads = 128;
constexpr int kMaskRows = 8, kMaskPadding = 4;  // as in lib/cell/mask.cuh
enum How { kHold, kRun, kRestart, kFirst };

// Mirrored by runtime/cuda/products/masks.py.
struct OrderArguments {
  const int64* lengths;  // [B]
  int* order;            // [2, B]: the row at each place, and the place of each row
  int64 count, batch;    // T, B
};

struct MakeArguments {
  const int64* lengths;         // [B]; null if all rows run all steps
  const int* order;             // as in OrderArguments; null: rows as they lie
  const unsigned char* reset;   // bool, by its strides; null for none
  unsigned char* steps;         // [directions, T, B]
  // [directions, B / 8, T + padding]: a bit per place, the first lowest
  unsigned char* restarts;
  int* longest;                 // [B]; not written without lengths
  int64 count, batch;           // T, B
  int64 reset_time, reset_row;  // in elements
  int64 reverses;               // bit i: whether direction i runs from the last step to the first
};

struct SelectArguments {
  const unsigned char* steps;   // [T, B]
  const void* from;             // a row of a step by its strides, in words of word_bytes
  void* to;                     // [T, B, words]: zeros where a row does not run a step
  int64 count, batch, words;    // T, B
  int64 from_time, from_row;    // in words
  int64 word_bytes;
};

// Packed rows lie step by step: of each step those of the first sequences, without a gap.
struct MoveArguments {
  const int64* starts;  // [T + 1], the first packed row of each step
  const void* from;
  void* to;
  int64 count, batch, words;     // T, B, and the words of a row
  int64 packed_row, padded_row;  // strides, in words
  int64 to_padded;               // whether packed rows are padded, or padded ones packed
  int64 word_bytes;
};

// Which units run from the last step in memory to the first.
enum Order { kForwards, kReversed, kReversedHalf };

// A row of a tensor is one of [N, D]; its elements are copied as words of word_bytes.
struct ReadArguments {
  const unsigned char* steps;    // [T, B], or [2, T, B] of both directions
  const void* states;            // [T, B, words], after each step
  const void* initial;           // [B, words]
  const void* reset;             // by its strides
  void* read;                    // [T, B, words]: where a step lies, what the step after it reads
  void* first;                   // [B, words]: what the first step reads
  int64 count, batch, words;     // T, B
  int64 reset_time, reset_row;   // in words
  int64 reverse;                 // an Order
  int64 word_bytes;
};

// How many of `count` steps a row runs.
RNNC_INLINE int64 steps_of(int64 length, int64 count) {
  return length < 0 ? 0 : length < count ? length : count;
}

RNNC_INLINE int64 row_at(const int* order, int64 place) { return order ? order[place] : place; }

// How a row takes step t; `end` is its length.
RNNC_INLINE u32 how_of(bool reverse, int64 t, int64 end, bool restarts) {
  if (t >= end) return kHold;
  if (restarts) return kRestart;
  return t == (reverse ? end - 1 : 0) ? kFirst : kRun;
}

RNNC_INLINE int64 quotient(int64 a, int64 b) {
  if ((a | b) >> 32 == 0) return static_cast<u32>(a) / static_cast<u32>(b);
  return a / b;
}

// body(step, row, both as one number, word): for each word of each row of each step, one a thread.
template <typename Arguments, typename Body>
RNNC_INLINE void each_word(const Arguments& a, Body body) {
  const int64 count = a.count * a.batch * a.words, each = int64{gridDim.x} * kThreads;
  for (int64 i = int64{blockIdx.x} * kThreads + threadIdx.x; i < count; i += each) {
    const int64 place = quotient(i, a.words), t = quotient(place, a.batch);
    body(t, place - t * a.batch, place, i - place * a.words);
  }
}

// Stores which of a group's places restart before step t; with the first step, zeros on both sides.
RNNC_INLINE void store_restarts(unsigned char* all, int64 group, int64 count, int64 t, u32 bits) {
  const int64 pitch = (count + 3) / 4 * 4 + 2 * kMaskPadding;
  unsigned char* const steps = all + group * pitch + kMaskPadding;
  steps[t] = static_cast<unsigned char>(bits);
  if (t > 0) return;
  for (int64 i = 1; i <= kMaskPadding; ++i) steps[-i] = 0;
  for (int64 i = count; i < pitch - kMaskPadding; ++i) steps[i] = 0;
}

// The rows of steps that run.
template <typename Word>
RNNC_INLINE void select_rows(const SelectArguments& a) {
  each_word(a, [&](int64 t, int64 row, int64 place, int64 k) {
    const Word* const from =
        static_cast<const Word*>(a.from) + t * a.from_time + row * a.from_row;
    Word* const to = static_cast<Word*>(a.to) + place * a.words;
    to[k] = a.steps[place] != kHold ? from[k] : Word{};
  });
}

template <typename Word>
RNNC_INLINE void move_rows(const MoveArguments& a) {
  each_word(a, [&](int64 t, int64 row, int64 place, int64 k) {
    const int64 start = a.starts[t];
    if (row >= a.starts[t + 1] - start) return;
    const int64 packed = (start + row) * a.packed_row, padded = place * a.padded_row;
    const Word* const from = static_cast<const Word*>(a.from) + (a.to_padded ? packed : padded);
    Word* const to = static_cast<Word*>(a.to) + (a.to_padded ? padded : packed);
    to[k] = from[k];
  });
}

template <typename Word>
RNNC_INLINE void read_states(const ReadArguments& a) {
  each_word(a, [&](int64 t, int64 row, int64 place, int64 k) {
    // Where both directions are one call, the units of the second one, and their masks, come last.
    const bool is_second = a.reverse == kReversedHalf && 2 * k >= a.words;
    const bool reversed = a.reverse == kReversed || is_second;
    const int64 before = reversed ? t + 1 : t - 1;  // the step that ran before
    const bool is_first = before < 0 || before >= a.count;
    const u32 how = a.steps[is_second ? a.count * a.batch + place : place];
    const Word* from = nullptr;
    if (how == kRestart) {
      // As in lib/cell/mask.cuh.
      const int64 time = is_second ? t + 1 : t;
      from = static_cast<const Word*>(a.reset) + time * a.reset_time + row * a.reset_row;
    } else if (how != kHold && (is_first || how == kFirst)) {
      from = static_cast<const Word*>(a.initial) + row * a.words;
    } else if (how != kHold) {
      from = static_cast<const Word*>(a.states) + (before * a.batch + row) * a.words;
    }
    Word* const to = is_first ? static_cast<Word*>(a.first) + row * a.words
                              : static_cast<Word*>(a.read) + (before * a.batch + row) * a.words;
    to[k] = from ? from[k] : Word{};
  });
}

}  // namespace rnnc

// A warp finds the place of a row: before it are all rows that are longer, and those of its length
// that lie before it.
extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_order_rows(const __grid_constant__ rnnc::OrderArguments a) {
  using namespace rnnc;
  const int64 row = (int64{blockIdx.x} * kThreads + threadIdx.x) / 32;
  if (row >= a.batch) return;
  const int64 own = steps_of(a.lengths[row], a.count);
  int place = 0;
  for (int64 other = threadIdx.x % 32; other < a.batch; other += 32) {
    const int64 length = steps_of(a.lengths[other], a.count);
    place += length > own || (length == own && other < row);
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) place += __shfl_xor_sync(~0u, place, lanes);
  if (threadIdx.x % 32 != 0) return;
  a.order[place] = static_cast<int>(row);
  a.order[a.batch + row] = place;
}

// blockIdx.y: the direction. A thread has a step of the rows at kMaskRows places.
extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_make_masks(const __grid_constant__ rnnc::MakeArguments a) {
  using namespace rnnc;
  const int64 i = int64{blockIdx.x} * kThreads + threadIdx.x;
  const int64 group = quotient(i, a.count), t = i - group * a.count;
  const int64 groups = (a.batch + kMaskRows - 1) / kMaskRows;
  if (group >= groups) return;
  const int64 direction = blockIdx.y;
  const bool reverse = a.reverses >> direction & 1;
  unsigned char* const steps = a.steps + (direction * a.count + t) * a.batch;
  // NOTE: all loads come before a store, which may write what they read as far as the compiler knows:
  // 512 rows of 64 steps took 6 us otherwise, on an H100.
  int64 row[kMaskRows], end[kMaskRows];
  u32 how[kMaskRows] = {}, restarts = 0;
  const int64 boundary = reverse ? t + 1 : t;  // in reverse the step before a reset starts anew
  const auto each = [&](const auto& body) {
#pragma unroll
    for (int k = 0; k < kMaskRows; ++k) body(k, group * kMaskRows + k);
  };
  each([&](int k, int64 place) {
    row[k] = row_at(a.order, place < a.batch ? place : a.batch - 1);
  });
  each([&](int k, int64) {
    end[k] = a.lengths ? steps_of(a.lengths[row[k]], a.count) : a.count;
  });
  if (a.reset) {
    const unsigned char* const reset = a.reset + boundary * a.reset_time;
    each([&](int k, int64) { how[k] = boundary < end[k] ? reset[row[k] * a.reset_row] : 0; });
  }
  each([&](int k, int64) { how[k] = how_of(reverse, t, end[k], how[k]); });
  each([&](int k, int64 place) {
    if (place >= a.batch) return;
    steps[row[k]] = static_cast<unsigned char>(how[k]);
    restarts |= static_cast<u32>(how[k] == kRestart) << k;
    if (a.lengths && t == 0 && direction == 0) a.longest[row[k]] = static_cast<int>(end[k]);
  });
  store_restarts(a.restarts, direction * groups + group, a.count, t, restarts);
}

extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_select_rows(const __grid_constant__ rnnc::SelectArguments a) {
  using namespace rnnc;
  switch (static_cast<int>(a.word_bytes)) {
    case 2: return select_rows<u16>(a);
    case 4: return select_rows<u32>(a);
    case 8: return select_rows<u64>(a);
    case 16: return select_rows<uint4>(a);
  }
}

extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_move_rows(const __grid_constant__ rnnc::MoveArguments a) {
  using namespace rnnc;
  switch (static_cast<int>(a.word_bytes)) {
    case 2: return move_rows<u16>(a);
    case 4: return move_rows<u32>(a);
    case 8: return move_rows<u64>(a);
    case 16: return move_rows<uint4>(a);
  }
}

extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_read_states(const __grid_constant__ rnnc::ReadArguments a) {
  using namespace rnnc;
  switch (static_cast<int>(a.word_bytes)) {
    case 2: return read_states<u16>(a);
    case 4: return read_states<u32>(a);
    case 8: return read_states<u64>(a);
    case 16: return read_states<uint4>(a);
  }
}
