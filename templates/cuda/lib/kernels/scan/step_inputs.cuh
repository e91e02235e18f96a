// What a thread's steps read besides the rows that a warp copies: resets, and inputs of the cell that
// no weight multiplies.
#pragma once

#include "lib/kernels/scan/tile.cuh"
#include "lib/kernels/walk/restarts.cuh"

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

// Which of a thread's steps the row restarts before. The bytes of the steps of a warp
// of one row come with its rows; other lanes load their own.
struct Restarts {
  u32 bits;     // of a step each
  bool in_warp; // whether any lane may have one

  static constexpr int kWords = walk::restart_words(kWarpSteps);
  static constexpr int kBytes =
      kMasked && Plan::kWholeWarps ? round_up(4 * kWords, 16) : 0;  // of a warp, for copies
  static_assert(kWords <= kLanes, "a lane copies a word");
  static_assert(Plan::kChunk % 4 == 0, "the steps of each part begin in the same place of a word");

  // Copies those of a warp's steps, of which the first lies at a place in memory.
  template <typename Arguments>
  static RNNC_MEMBER void copy(char* area, const Arguments& a, const Tile& tile, int place,
                               bool back) {
    if (!kBytes || tile.lane >= kWords) return;
    walk::RestartBytes bytes;
    bytes.begin(a, tile.channel, back);
    bytes.copy(area + 4 * tile.lane, place, tile.lane);
  }
  // Reads those of a lane's steps; of steps from `limit` on, none.
  template <typename Arguments>
  RNNC_MEMBER void read(const char* area, const Arguments& a, const Tile& tile, int place,
                        bool back, int limit) {
    const u32 all = read_all(area, a, tile, place, back, limit);
    bits = limit <= 0 ? 0 : limit < Plan::kChunk ? all & ((1u << limit) - 1) : all;
    if (kMasked && !kBytes) in_warp = any_lane(bits != 0);
  }
  template <typename Arguments>
  RNNC_MEMBER u32 read_all(const char* area, const Arguments& a, const Tile& tile, int place,
                           bool back, int limit) {
    in_warp = false;
    if (!kMasked || (!kBytes && limit <= 0)) return 0;
    walk::RestartBytes bytes;
    bytes.begin(a, tile.channel, back);
    u32 all = 0;
    if constexpr (kBytes > 0) {
      repeat<kParts>([&](int part) {
        const u32 found =
            bytes.bits_of_warp<Plan::kChunk>(area + part * Plan::kChunk, place, tile.lane);
        all = tile.part() == part ? found : all;
        in_warp = in_warp || found != 0;
      });
    } else {
      u32 words[walk::restart_words(Plan::kChunk)];
      repeat<walk::restart_words(Plan::kChunk)>([&](int i) {
        u32 found[1] = {};
        const int word = bytes.word(place, i);
        if (bytes.exists(word)) {
          ld_global_nc(found, reinterpret_cast<const u32*>(bytes.at(word)));
        }
        words[i] = found[0];
      });
      all = bytes.bits<Plan::kChunk>(words, place);
    }
    return all;
  }
  // Of a pass over the steps. NOTE: a sum with 0, which the compiler does not know. It would keep the
  // tests of a pass for the next one otherwise, in registers that it has to take apart again.
  RNNC_MEMBER u32 of_pass(u32 zero) {
    if (!kMasked) return 0;
    bits += zero;
    return bits;
  }
};

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
