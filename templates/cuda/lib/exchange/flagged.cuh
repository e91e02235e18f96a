// Words in memory that say themselves that they have arrived: data-as-flag, through L2.
//
// An exchange buffer begins filled with kAbsent, and each word of it is written once, with anything
// else. Who waits for data reads it until nothing of it is kAbsent: no flag, no fence, no barrier,
// and no order between words is assumed. What fills a word at once arrives at once.
#pragma once

namespace rnnc {

constexpr u32 kAbsent = 0xffffffffu;  // two NaNs of two bytes, or one float's
constexpr int kLaneBytes = 16;        // what a lane takes of a chunk
constexpr int kTileRows = 8;          // batch rows of a tile
constexpr int kChunkBytes = 64;       // of K, a row
constexpr int kSlotChunkBytes = kTileRows * kChunkBytes;

// What a launch gives the kernels of a grid, by value.
template <typename Arguments>
struct GridArguments {
  Arguments arguments;
  // [steps, heads, tiles of 8 rows, chunks of K, 8 rows, 64 bytes]: a slot a step, all kAbsent.
  char* exchange;
  // [heads, groups, blocks, warps, fragments, 32 lanes, 16 bytes]: R that is streamed; null: none.
  char* streamed;
  int64 first_group;  // of batch rows, of this launch: what does not fit at once takes turns
};

// A word that is not kAbsent. Conversions to two-byte elements give one NaN, another; a float's may
// have come from outside.
RNNC_INLINE u32 present(u32 word) { return kPack == 1 && word == kAbsent ? 0x7fffffffu : word; }

RNNC_INLINE void publish_word(char* to, u32 word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(present(word)) : "memory");
}
RNNC_INLINE u32 read_word(const char* from) {
  u32 word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
RNNC_INLINE uint4 read_words(const char* from) {
  uint4 words;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from)
               : "memory");
  return words;
}
RNNC_INLINE bool has_absent(uint4 w) {
  return w.x == kAbsent || w.y == kAbsent || w.z == kAbsent || w.w == kAbsent;
}

// Where the word of element k of a row of a tile lies, in bytes, from the first chunk of the tile.
RNNC_INLINE int place_of_word(int row, int k) {
  return k / kChunk * kSlotChunkBytes + row * kChunkBytes + k % kChunk / kPack * 4;
}

// Values of neighbouring units, which lie in neighbouring lanes, go out as words. Every lane of the
// warp takes part. With two-byte elements a lane writes every other word, that of value i where
// i % 2 is the parity of its unit: it gets its neighbour's half for the half that it gives.
template <typename T = Element, int n, typename Place>
RNNC_INLINE void publish_values(const real (&values)[n], bool odd, bool given, const Place& place) {
  if constexpr (kPack == 1) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (given) publish_word(place(i), __float_as_uint(values[i]));
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; i += 2) {
      const real first = values[i], second = i + 1 < n ? values[i + 1] : real(0);
      const real got = __shfl_xor_sync(~0u, odd ? first : second, 1);
      const u32 word = odd ? pack(T{}, got, second) : pack(T{}, first, got);
      if (given && (i + 1 < n || !odd)) publish_word(place(odd && i + 1 < n ? i + 1 : i), word);
    }
  }
}

}  // namespace rnnc
