// What a thread's steps read besides the rows that a warp copies: resets, and inputs of the cell that
// no weight multiplies.
#pragma once

#include "lib/kernels/scan/tile.cuh"

namespace rnnc::scan {

// What the row restarts from before a step: the same for all steps, or loaded where it restarts.
struct Resets {
  States constant;

  template <typename Arguments, typename Needed>
  RNNC_MEMBER void begin(const Arguments& a, const Channel& channel, const Needed& needed) {
    if (kMasked && !kResetsLate) load(constant, a, channel, 0, needed);
  }
  template <typename Arguments, typename Needed>
  static RNNC_MEMBER void load(States& values, const Arguments& a, const Channel& channel,
                               int64 place, const Needed& needed) {
    repeat<Cell::kStates>([&](int s) {
      if (!needed(s)) return;
      values[s] = to_real(*reset_value(a, s, place, channel.row, channel.unit,
                                       channel.time.reversed));
    });
  }
};

// Which of a thread's steps the row restarts before, a bit per step; of those from `limit` on, none.
// Step j lies in memory at begin + j, or at begin - j if they descend. The bytes of the steps are
// loaded four at a time: there are zeros on both sides of them (lib/cell/mask.cuh).
template <typename Arguments>
RNNC_INLINE u32 restart_bits(const Arguments& a, const Channel& channel, int begin, bool descends,
                             int limit) {
  constexpr int kWords = Plan::kChunk / 4;
  static_assert(kWords * 4 == Plan::kChunk && Plan::kChunk < 32, "whole words, and a bit per step");
  const char* const rows = restarts_of(a, channel.place, channel.time.reversed);
  const int lowest = descends ? begin - (Plan::kChunk - 1) : begin;
  const int first = lowest >> 2, last = static_cast<int>((a.steps + 3) / 4);
  u32 words[kWords + 1][1];
  repeat<kWords + 1>([&](int i) {
    words[i][0] = 0;
    const bool exists = first + i >= -1 && first + i <= last;
    if (exists) ld_global_nc(words[i], reinterpret_cast<const u32*>(rows) + first + i);
  });
  const int skew = 8 * (lowest & 3) + static_cast<int>(channel.place) % kMaskRows;
  u32 up = 0, down = 0;
  repeat<kWords>([&](int i) {
    const u32 bytes =
        static_cast<u32>((static_cast<u64>(words[i + 1][0]) << 32 | words[i][0]) >> skew);
    repeat<4>([&](int k) {
      const u32 bit = bytes >> 8 * k & 1;
      up |= bit << (4 * i + k);
      down |= bit << (Plan::kChunk - 1 - 4 * i - k);
    });
  });
  const u32 all = descends ? down : up;
  return limit <= 0 ? 0 : limit < Plan::kChunk ? all & ((1u << limit) - 1) : all;
}

// Loads the inputs of the cell that no weight multiplies, of a step in memory.
template <int n, typename Arguments>
RNNC_INLINE void load_unweighted(real (&values)[n], int first, const Arguments& a,
                                 const Channel& channel, int64 place) {
#ifdef RNNC_UNWEIGHTED
  const UnweightedArguments& given = a.unweighted;
  repeat<Cell::kUnweighted>([&](int k) {
    values[first + k] = to_real(given.tensor[k][place * given.time[k] +
                                                channel.row * given.row[k] +
                                                channel.head * given.head[k] +
                                                channel.head_unit * given.unit[k]]);
  });
#endif
}

}  // namespace rnnc::scan
