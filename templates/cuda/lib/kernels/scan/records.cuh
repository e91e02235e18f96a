// Records: what tiles publish for those behind them, through L2.
//
// A tile publishes its map as soon as it knows it, and what is carried out of it as soon as it knows
// what comes in. A tile begins from the last published values, and applies the maps of the tiles
// between, in order of time: the values are the same, bit for bit, wherever it begins. Each word is
// filled with kUnwritten before the launch and written once with anything else. So a reader polls
// the word, and no order between words is assumed.
#pragma once

#include "lib/kernels/scan/map.cuh"
#include "lib/ptx/watchdog.cuh"

namespace rnnc::scan {

// The arguments of the kernels of a scan plan, passed by value.
template <typename Arguments>
struct ScanArguments {
  Arguments arguments;
  char* records;  // [tiles, groups of channels, kWords, 32]
};

// A word has a `real`, or an exponent.
RNNC_INLINE auto word_type() {
  if constexpr (sizeof(real) == 8) return u64{};
  if constexpr (sizeof(real) == 4) return u32{};
}
using Word = decltype(word_type());
constexpr Word kUnwritten = ~Word{0};  // a NaN

RNNC_INLINE u32 word_of(float x) {
  const u32 word = __float_as_uint(x);
  return word == ~u32{0} ? 0x7fffffffu : word;
}
RNNC_INLINE u64 word_of(double x) {
  const u64 word = static_cast<u64>(static_cast<u32>(__double2hiint(x))) << 32 |
                   static_cast<u32>(__double2loint(x));
  return word == ~u64{0} ? word >> 1 : word;
}
RNNC_INLINE float real_of(u32 word) { return __uint_as_float(word); }
RNNC_INLINE double real_of(u64 word) {
  return __hiloint2double(static_cast<int>(word >> 32), static_cast<int>(word));
}
// Twice the exponent is even, and kUnwritten is odd.
RNNC_INLINE Word word_of_exponent(int e) { return static_cast<Word>(static_cast<u32>(e) << 1); }
RNNC_INLINE int exponent_of_word(Word word) { return static_cast<int>(static_cast<u32>(word)) >> 1; }

// What a tile publishes of a kind of map: what is carried out of it, and its map.
template <typename Any>
constexpr int kMapWords = 0;
template <>
constexpr int kMapWords<MaxMap> = (1 + kFactorWords) * kMaxima;
template <>
constexpr int kMapWords<Map> = kLinear * (2 + kFactorWords * kLinear);
template <typename Any>
constexpr int kRecordAt = 0;
template <>
constexpr int kRecordAt<Map> = kMaxima + kMapWords<MaxMap>;
constexpr int kWords = kRecordAt<Map> + kLinear + kMapWords<Map>;
template <typename Any>
constexpr int kMapsAtOnce = at_least_one(20 / at_least_one(kMapWords<Any>));  // in registers

// A factor, in as many words as keep its digits.
RNNC_INLINE void put_factor(Word* words, Factor x) {
  repeat<kFactorWords>([&](int k) {
    words[k] = word_of(static_cast<real>(x));
    x = rest_of(x);
  });
}
RNNC_INLINE Factor factor_of(const Word* words) {
  Factor found = real_of(words[0]);
  repeat<kFactorWords - 1>([&](int k) { found += real_of(words[k + 1]); });
  return found;
}
RNNC_CONSTEXPR int factor_at(int j, int i) {
  return 2 * kLinear + (j * kLinear + i) * kFactorWords;
}
RNNC_INLINE void words_of(Word* words, const Map& map) {
  repeat<kLinear>([&](int j) {
    words[j] = word_of(map.offset[j]);
    words[kLinear + j] = word_of_exponent(map.exponent[j]);
    repeat<kLinear>([&](int i) { put_factor(words + factor_at(j, i), map.column[j][i]); });
  });
}
RNNC_INLINE void map_of(Map& map, const Word* words) {
  repeat<kLinear>([&](int j) {
    map.offset[j] = real_of(words[j]);
    map.exponent[j] = exponent_of_word(words[kLinear + j]);
    repeat<kLinear>([&](int i) { map.column[j][i] = factor_of(words + factor_at(j, i)); });
  });
}
RNNC_INLINE void words_of(Word* words, const MaxMap& map) {
  repeat<kMaxima>([&](int i) {
    words[i] = word_of(map.bound[i]);
    put_factor(words + kMaxima + i * kFactorWords, map.shift[i]);
  });
}
RNNC_INLINE void map_of(MaxMap& map, const Word* words) {
  repeat<kMaxima>([&](int i) {
    map.bound[i] = real_of(words[i]);
    map.shift[i] = factor_of(words + kMaxima + i * kFactorWords);
  });
}
constexpr int kLanes = 32;

// Warps of a group join their maps one after the other, the first one of each group.
constexpr int kGroup = 4, kGroups = ceil_div(Plan::kWarps, kGroup);
// The other warps but the last one have nothing to do then: they load the maps of tiles before, two
// each, as far as there is room.
constexpr int kHelpers = Plan::kSequential ? 0 : at_least_one(Plan::kWarps - kGroups) - 1;
constexpr int kAheadBytes = 8192;
template <typename Any>
constexpr int kMapBytesAhead = at_least_one(kMapWords<Any>) * kLanes * static_cast<int>(sizeof(Word));
template <typename Any>
constexpr int kMapsAhead = 2 * kHelpers * kMapBytesAhead<Any> <= kAheadBytes
                               ? 2 * kHelpers
                               : kAheadBytes / kMapBytesAhead<Any>;

struct Records {
  Word* first;   // of the group's first tile and this lane
  int64 stride;  // words from tile to tile
  Wait wait;

  RNNC_MEMBER Records(char* records, int64 group, int64 groups, int lane, const Wait& how)
      : first(reinterpret_cast<Word*>(records) + group * (kWords * kLanes) + lane),
        stride(groups * (kWords * kLanes)),
        wait(how) {}
  RNNC_MEMBER Word* of(int tile) const { return first + tile * stride; }

  template <typename Any>
  RNNC_MEMBER Word* values_of(int tile) const {
    return of(tile) + kRecordAt<Any> * kLanes;
  }
  template <typename Any>
  RNNC_MEMBER Word* map_at(int tile) const {
    return values_of<Any>(tile) + Any::kCount * kLanes;
  }
  template <typename Any>
  RNNC_MEMBER void publish_values(int tile, const real (&values)[at_least_one(Any::kCount)]) const {
    repeat<Any::kCount>([&](int i) { publish(values_of<Any>(tile), i, word_of(values[i])); });
  }
  template <typename Any>
  RNNC_MEMBER void publish_map(int tile, const Any& map) const {
    Word words[kMapWords<Any>];
    words_of(words, map);
    repeat<kMapWords<Any>>([&](int i) { publish(map_at<Any>(tile), i, words[i]); });
  }
  static RNNC_MEMBER void publish(Word* to, int i, Word word) {
    st_relaxed_gpu(reinterpret_cast<char*>(to + i * kLanes), word);
  }
  template <int n>
  static RNNC_MEMBER void load(Word (&words)[n], const Word* at) {
    repeat<n>([&](int i) { words[i] = ld_relaxed_gpu(at + i * kLanes); });
  }
  template <int n>
  static RNNC_MEMBER bool are_there(const Word (&words)[n]) {
    bool all = true;
    repeat<n>([&](int i) { all &= words[i] != kUnwritten; });
    return all;
  }
  // Waits for words of a tile, from the one at `at` on.
  template <int n>
  RNNC_MEMBER void read(Word (&words)[n], const Word* at) const {
    Watchdog watchdog;
    while (true) {
      load(words, at);
      if (are_there(words)) return;
      watchdog.poll(wait);
    }
  }

  // Gives what is carried into a tile that is not the first. All lanes of a warp call this. `ahead`
  // has words of the maps of the tiles before it, that of the one just before first; wait() waits
  // until they are there.
  template <typename Any, typename Waits>
  RNNC_MEMBER void carried_into(int tile, int lane, real (&values)[at_least_one(Any::kCount)],
                                const Word* ahead, const Waits& wait) const {
    constexpr int kAtOnce = kMapsAtOnce<Any>;
    int from = last_with_values<Any>(tile, lane) + 1;
    Word words[Any::kCount];
    read(words, values_of<Any>(from - 1));
    repeat<Any::kCount>([&](int i) { values[i] = real_of(words[i]); });
    const int near = maximum(tile - kMapsAhead<Any>, from);
    // Several maps of the others are on their way together: each takes a round trip to L2.
#pragma unroll 1
    for (; from < near; from += kAtOnce) {
      Word maps[kAtOnce][kMapWords<Any>];
      load_maps<Any>(maps, from, from, near);
      repeat<kAtOnce>([&](int i) {
        if (from + i >= near) return;
        if (!are_there(maps[i])) read(maps[i], map_at<Any>(from + i));
        apply<Any>(maps[i], values);
      });
    }
    wait();
#pragma unroll 2
    for (int i = near; i < tile; ++i) {
      Word map[kMapWords<Any>];
      repeat<kMapWords<Any>>([&](int k) {
        map[k] = ahead[((tile - 1 - i) * kMapWords<Any> + k) * kLanes + lane];
      });
      apply<Any>(map, values);
    }
  }
  template <typename Any>
  static RNNC_MEMBER void apply(const Word (&words)[kMapWords<Any>],
                                real (&values)[at_least_one(Any::kCount)]) {
    Any map;
    map_of(map, words);
    map.apply(values);
  }
  // Puts words of the map of a tile, once it is there, where `carried_into` finds them.
  template <typename Any>
  RNNC_MEMBER void put_ahead(Word* ahead, int before, int tile, int lane) const {
    Word words[kMapWords<Any>];
    read(words, map_at<Any>(tile - 1 - before));
    repeat<kMapWords<Any>>(
        [&](int k) { ahead[(before * kMapWords<Any> + k) * kLanes + lane] = words[k]; });
  }
  // Loads maps of tiles from `first` on that are in [begin, end), whatever is there.
  template <typename Any>
  RNNC_MEMBER void load_maps(Word (&maps)[kMapsAtOnce<Any>][kMapWords<Any>], int first, int begin,
                             int end) const {
    repeat<kMapsAtOnce<Any>>([&](int i) {
      if (first + i >= begin && first + i < end) load(maps[i], map_at<Any>(first + i));
    });
  }
  // Each lane looks at another tile, by the first lane's word.
  template <typename Any>
  RNNC_MEMBER int last_with_values(int tile, int lane) const {
    const int own = tile - 1 - lane;
    Watchdog watchdog;
    while (true) {
      const bool there = own >= 0 && ld_relaxed_gpu(values_of<Any>(own) - lane) != kUnwritten;
      const u32 found = __ballot_sync(~0u, there);
      if (found) return tile - __ffs(found);
      watchdog.poll(wait);
    }
  }
};

}  // namespace rnnc::scan
