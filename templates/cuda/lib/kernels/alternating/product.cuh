// The product of a step in the step's own kernel: R comes from L2 every step, as fragments.
//
// A block owns 8 units and kRows batch rows. Batch rows are the A operand of the matrix instructions,
// in tiles of 16; R is B, in strips of 8 of its rows (backwards, of its columns). Both lie in memory in
// the order in which the lanes of a warp read them, 16 bytes each: of a chunk of K, a strip of R is one
// such piece of 512 bytes, a tile of rows two. R is packed so once a call, rows as they are written.
// Warps take turns in K, and leave their sums in shared memory.
//
// R depends on no step. So a block sends for its first chunks before it waits for the step before.
#pragma once

namespace rnnc {

constexpr int kRows = kRowTiles * kTileRows;
constexpr int kItems = 8 * kRows;
constexpr int kStripBytes = 512;
constexpr int kTileBytes = 1024;
static_assert(kItems <= 32 * kWarps, "a thread has one unit and batch row");

// Lets the blocks of the next step begin as soon as there is room for them; they do not yet read what
// this one writes. Nothing before compute capability 9.0, where steps do not overlap.
RNNC_INLINE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the step before has ended, and its writes can be read.
RNNC_INLINE void await_last() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

RNNC_INLINE void load_fresh(u32 (&w)[4], const char* from) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(from)
               : "memory");
}
// NOTE: no .nc: the compiler would move it behind the wait, ahead of which it is to be on its way.
RNNC_INLINE void load_early(u32 (&w)[4], const char* from) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(from)
               : "memory");
}
RNNC_INLINE const char* opaque(const char* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

// A `Share` says what a block multiplies: strips(source), and kAhead, the chunks that a warp has sent
// for before it multiplies the first.
template <typename Share>
struct StepProduct {
  RNNC_CONSTEXPR int first_strip(int source) {
    int strips = 0;
    for (int i = 0; i < source; ++i) strips += Share::strips(i);
    return strips;
  }
  static constexpr int kAhead = Share::kAhead;
  static constexpr int kStrips = first_strip(kSources);
  // An instruction waits for its accumulator: so few of them have two that take turns.
  static constexpr int kChains = kStrips * kRowTiles < 4 ? 2 : 1;
  static constexpr int kParts = kWarps * kStrips * kItems;  // numbers that the warps leave

  u32 weights[kAhead][kStrips][4];
  Sums<kChains> sum[kStrips][kRowTiles];
  // This lane's place in the warp's first chunk of R and of the rows, and how many chunks it has.
  const char *packed[kSources], *rows[kSources];
  int count[kSources];

  // Sends for R: chunks from `begin` up to `end` of a source, whose strips of this block begin there.
  template <int source>
  RNNC_MEMBER void send(const Element* strips, int begin, int end) {
    const int first = begin + (threadIdx.x >> 5);
    count[source] = first < end ? ceil_div(end - first, kWarps) : 0;
    packed[source] = opaque(reinterpret_cast<const char*>(strips) + (threadIdx.x & 31) * 16 +
                            static_cast<int64>(first) * Share::strips(source) * kStripBytes);
    unroll<kAhead>([&](auto slot) { send_chunk<source, decltype(slot)::value>(decltype(slot)::value); });
#pragma unroll
    for (int strip = 0; strip < Share::strips(source); ++strip) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) sum[first_strip(source) + strip][tile].clear();
    }
  }
  // The same chunks of the rows, whose tiles of this block begin there; they are not read yet.
  template <int source>
  RNNC_MEMBER void aim(const Element* tiles, int begin) {
    rows[source] = opaque(reinterpret_cast<const char*>(tiles) + (threadIdx.x & 31) * 16 +
                          static_cast<int64>(begin + (threadIdx.x >> 5)) * kTileBytes);
  }

  // The distance between tiles of rows is `tile_bytes`.
  template <int source>
  RNNC_MEMBER void multiply(int64 tile_bytes) {
    u32 words[kAhead][kRowTiles][2][4];
    const auto send_rows = [&](auto slot, int i) {
      if (i >= count[source]) return;
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const char* from = rows[source] + tile * tile_bytes + i * kWarps * kTileBytes;
        load_fresh(words[decltype(slot)::value][tile][0], from);
        load_fresh(words[decltype(slot)::value][tile][1], from + kTileBytes / 2);
      }
    };
    unroll<kAhead>([&](auto slot) { send_rows(slot, decltype(slot)::value); });
#pragma unroll 1
    for (int i = 0; i < count[source]; i += kAhead) {
      unroll<kAhead>([&](auto slot_index) {
        constexpr int slot = decltype(slot_index)::value;
        if (i + slot >= count[source]) return;
        unroll<2>([&](auto turn_index) {
          constexpr int turn = decltype(turn_index)::value;
#pragma unroll
          for (int strip = 0; strip < Share::strips(source); ++strip) {
            const u32(&w)[4] = weights[slot][first_strip(source) + strip];
#pragma unroll
            for (int tile = 0; tile < kRowTiles; ++tile) {
              sum[first_strip(source) + strip][tile].template add<turn>(
                  words[slot][tile][turn], w[2 * turn], w[2 * turn + 1], Rounding{});
            }
          }
        });
        send_chunk<source, slot>(i + slot + kAhead);
        send_rows(slot_index, i + slot + kAhead);
      });
    }
  }

  // The warp's sums, [warps, strips, rows, 8], for `total` behind a barrier.
  RNNC_MEMBER void leave(float* parts) const {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        float* to = parts + (warp * kStrips + strip) * kItems + 8 * kTileRows * tile + 2 * lane;
        const auto& s = sum[strip][tile];
        *reinterpret_cast<float2*>(to) = make_float2(s.total(0), s.total(1));
        *reinterpret_cast<float2*>(to + 64) = make_float2(s.total(2), s.total(3));
      }
    }
  }
  // Of one item, or of as many neighbours as T has numbers.
  template <typename T>
  static RNNC_MEMBER T part(const float* parts, int warp, int strip, int item) {
    return *reinterpret_cast<const T*>(parts + (warp * kStrips + strip) * kItems + item);
  }
  static RNNC_MEMBER float total(const float* parts, int strip, int item) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += part<float>(parts, warp, strip, item);
    return sum;
  }
  static RNNC_MEMBER float2 total_pair(const float* parts, int strip, int item) {
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const float2 own = part<float2>(parts, warp, strip, item);
      sum.x += own.x;
      sum.y += own.y;
    }
    return sum;
  }

 private:
  template <int source, int slot>
  RNNC_MEMBER void send_chunk(int i) {
    if (i >= count[source]) return;
#pragma unroll
    for (int strip = 0; strip < Share::strips(source); ++strip) {
      load_early(weights[slot][first_strip(source) + strip],
                 packed[source] + (i * kWarps * Share::strips(source) + strip) * kStripBytes);
    }
  }
};

}  // namespace rnnc
