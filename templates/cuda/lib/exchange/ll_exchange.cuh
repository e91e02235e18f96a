// Low-latency exchange through L2: a word of data is its own flag (as in NCCL's LL protocol).
//
// An exchange buffer is filled with kSentinel before the launch, and each word is written once,
// with anything else. A reader polls until no word that it needs is kSentinel: no flag, no fence,
// no barrier, and no order between words is assumed. Each word arrives as a whole.
#pragma once

#include "lib/cell/arguments.cuh"
#include "lib/mma/k_tile.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

constexpr u32 kSentinel = 0xffffffffu;  // two NaNs of two-byte elements, or one of a float
constexpr int kLaneBytes = 16;          // of a k_tile, per lane
constexpr int kTileRows = 8;            // batch rows per tile
constexpr int kTileKTileBytes = kTileRows * kKTileBytes;

// The arguments of the kernels of a grid plan, passed by value.
template <typename Arguments>
struct GridArguments {
  Arguments arguments;
  // [steps, heads, tiles of 8 rows, k_tiles, 8 rows, 64 bytes]: one region per step, all kSentinel.
  char* exchange;
  // [heads, groups, blocks, warps, fragments, 32 lanes, 16 bytes]: the streamed part of R; null:
  // none.
  char* streamed;
  int64 first_group;  // of batch rows: further groups run in further launches
};

// Replaces a NaN that equals the sentinel by another NaN. Conversions to two-byte elements never
// give the sentinel; a float may come from outside.
RNNC_INLINE u32 canonical_nan(u32 word) {
  return kPack == 1 && word == kSentinel ? 0x7fffffffu : word;
}

RNNC_INLINE void publish_word(char* to, u32 word) { st_relaxed_gpu(to, canonical_nan(word)); }
RNNC_INLINE bool has_sentinel(uint4 w) {
  return w.x == kSentinel || w.y == kSentinel || w.z == kSentinel || w.w == kSentinel;
}

// The offset in bytes of the word of element k of a row, from the first k_tile of the tile.
RNNC_INLINE int word_offset(int row, int k) {
  return k / kKTile * kTileKTileBytes + row * kKTileBytes + k % kKTile / kPack * 4;
}

// Publishes the values of neighbouring units, which neighbouring lanes hold, as words. All lanes of
// the warp must call this. With two-byte elements a lane writes every other word, that of value i
// if i % 2 is the parity of its unit; it exchanges halves with its neighbour.
template <typename T = Element, int n, typename Address>
RNNC_INLINE void publish_values(const real (&values)[n], bool odd, bool valid,
                                const Address& address) {
  if constexpr (kPack == 1) {
    repeat<n>([&](int i) {
      if (valid) publish_word(address(i), __float_as_uint(values[i]));
    });
  } else {
#pragma unroll
    for (int i = 0; i < n; i += 2) {
      const real first = values[i], second = i + 1 < n ? values[i + 1] : real(0);
      const real got = __shfl_xor_sync(~0u, odd ? first : second, 1);
      const u32 word = odd ? pack(T{}, got, second) : pack(T{}, first, got);
      if (valid && (i + 1 < n || !odd)) publish_word(address(odd && i + 1 < n ? i + 1 : i), word);
    }
  }
}

}  // namespace rnnc
