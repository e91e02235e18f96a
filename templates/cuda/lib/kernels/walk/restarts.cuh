// Restarts: before which of some steps that follow each other a row restarts.
//
// A byte per step has the bits of eight rows (lib/cell/mask.cuh). The bytes of a chunk of steps come
// in whole words through shared memory, ahead of the steps, in the order in which these run. A warp
// whose channels are of one row has one copy of them.
#pragma once

#include "lib/kernels/walk/channel.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc::walk {

// The words of n steps, wherever the first of them lies in its word.
RNNC_CONSTEXPR int restart_words(int n) { return (n + 6) / 4; }

// Where the bytes of a row's steps are, and in which order steps run.
struct RestartBytes {
  const char* rows;  // of the first step in memory, aligned to 4 bytes
  int last;          // word that exists; the first one is -1
  bool descends;     // whether a step lies before the one that runs before it
  u32 bit;           // of the row, by its number in a byte

  template <typename Arguments, int units>
  RNNC_MEMBER void begin(const Arguments& a, const Channel<units>& channel, bool back) {
    if (!kMasked) return;
    rows = restarts_of(a, channel.place, channel.time.reversed);
    last = static_cast<int>((a.steps + 3) / 4);
    descends = channel.time.reversed != back;
    bit = static_cast<u32>(channel.place) % kMaskRows;
  }
  // Word i of steps of which the first lies at a place, if it exists.
  RNNC_MEMBER int word(int place, int i) const { return (place >> 2) + (descends ? -i : i); }
  RNNC_MEMBER bool exists(int word) const { return word >= -1 && word <= last; }
  RNNC_MEMBER const char* at(int word) const { return rows + int64{4} * word; }
  // Copies one of them, zeros if there is none.
  RNNC_MEMBER void copy(char* to, int place, int i) const {
    const int own = word(place, i);
    cp_async_4_or_zero(to, at(exists(own) ? own : 0), exists(own));
  }
  // The place of the first step in its word, in the order of the steps.
  RNNC_MEMBER int skew(int place) const { return descends ? 3 - (place & 3) : place & 3; }
  // Returns a bit per step, the lowest for the first one. The warp has the words of the steps in shared
  // memory; each lane reads the byte of one step. All lanes have channels of one row.
  template <int n>
  RNNC_MEMBER u32 bits_of_warp(const char* words, int place, int lane) const {
    static_assert(n <= 32, "a step per lane");
    const int at = skew(place) + (n < 32 && lane >= n ? 0 : lane);
    const u32 byte = static_cast<unsigned char>(words[at_byte(at)]);
    const u32 all = __ballot_sync(~0u, byte >> bit & 1);
    return n < 32 ? all & ((1u << n % 32) - 1) : all;
  }
  // Where the byte of a step is, in the order of the steps.
  RNNC_MEMBER int at_byte(int at) const { return (at & ~3) + (descends ? 3 - (at & 3) : at & 3); }
  // The same of words that the thread has.
  template <int n>
  RNNC_MEMBER u32 bits(const u32 (&words)[restart_words(n)], int place) const {
    static_assert(n < 32, "a bit per step");
    constexpr int kWords = restart_words(n);
    u32 found = 0, now = in_order(words[0]);
    const u32 shift = 8 * static_cast<u32>(skew(place)) + bit;
    repeat<ceil_div(n, 4)>([&](int i) {
      const u32 next = i + 1 < kWords ? in_order(words[i + 1 < kWords ? i + 1 : 0]) : 0;
      u32 four = static_cast<u32>((static_cast<u64>(next) << 32 | now) >> shift) & 0x01010101u;
      four |= four >> 7;
      found |= ((four | four >> 14) & 15) << (4 * i);
      now = next;
    });
    return n % 4 ? found & ((1u << n) - 1) : found;
  }
  RNNC_MEMBER u32 in_order(u32 word) const {
    const u32 turned = word << 24 | (word & 0xff00u) << 8 | (word >> 8 & 0xff00u) | word >> 24;
    return descends ? turned : word;
  }
};

// Those of the steps of a walk, chunk by chunk.
template <bool whole_warps, int chunk>
struct ChunkRestarts {
  static constexpr int kWords = restart_words(chunk);
  static constexpr int kCopies = whole_warps ? 1 : kThreads;  // of each word
  static constexpr int kBytes = kMasked ? round_up(4 * kWords * kCopies, 16) : 0;  // per block
  RestartBytes bytes;
  int by;         // to the place of the next step
  int coming;     // the place of the first step of the chunk that is copied next
  int place;      // of the one that is read next

  template <typename Arguments, int units>
  RNNC_MEMBER void begin(const Arguments& a, const Channel<units>& channel, int t, bool back) {
    if (!kMasked) return;
    bytes.begin(a, channel, back);
    by = bytes.descends ? -1 : 1;
    coming = place = static_cast<int>(channel.time.at(t));
  }
  static RNNC_MEMBER int own() { return whole_warps ? 0 : static_cast<int>(threadIdx.x); }
  static RNNC_MEMBER int word_at(int i) { return 4 * (i * kCopies + own()); }

  RNNC_MEMBER void copy(char* area) {
    if (!kMasked) return;
    if constexpr (whole_warps) {
      static_assert(kWords <= kThreads, "a lane copies a word");
      const int i = static_cast<int>(threadIdx.x);
      if (i < kWords) bytes.copy(area + 4 * i, coming, i);
    } else {
      repeat<kWords>([&](int i) { bytes.copy(area + word_at(i), coming, i); });
    }
    coming += by * chunk;
  }
  // Reads those of a chunk, a bit per step, and goes on to the next one; or that of its step j. Step
  // `one`, if it is one of those that are read, is the first of all: what it begins from is known
  // before the walk (`first_states`).
  template <int n>
  RNNC_MEMBER u32 read(const char* area, int j, int one) {
    static_assert(n == chunk || n == 1, "all steps of a chunk, or one");
    if constexpr (!kMasked) {
      return 0;
    } else if constexpr (n == chunk && whole_warps) {
      const u32 bits = bytes.bits_of_warp<n>(area, place, static_cast<int>(threadIdx.x));
      place += by * chunk;
      return one >= 0 && one < n ? bits & ~(1u << one) : bits;
    } else if constexpr (n == chunk) {
      u32 words[kWords];
      repeat<kWords>(
          [&](int i) { words[i] = *reinterpret_cast<const u32*>(area + word_at(i)); });
      const u32 bits = bytes.bits<n>(words, place);
      place += by * chunk;
      return one >= 0 && one < n ? bits & ~(1u << one) : bits;
    } else {
      const int at = bytes.at_byte(bytes.skew(place) + j);
      const u32 byte = static_cast<unsigned char>(area[word_at(at >> 2) + (at & 3)]);
      return one != 0 && byte >> bytes.bit & 1;
    }
  }
};

}  // namespace rnnc::walk
