// A block's share of R times the states, K split over its warps.
//
// R lies in registers, what those cannot hold in shared memory, and what that cannot hold either in
// global memory, from where it is streamed in every step: a ring in shared memory has the next
// fragments, in the order in which they are multiplied, and those of the next step after the last.
// A thread reads only what it wrote and copied itself, so that nobody waits for anybody.
//
// Every warp multiplies all tiles of the block by chunks of K of its own, so that each byte of the
// states enters the block once, straight into the registers that a matrix instruction reads. What
// the warps found is added afterwards, through shared memory.
//
// A `Share` says how: kWarps, those of a block; slots(source), chunks that a warp has of each
// source; tiles(source), tiles of 16 rows of R; chunks(source), all there are; memory(source, slot),
// where R of a slot lies; kSharing, the warps that share K, of other blocks too; kWritten, elements
// of a state that are ever written.
#pragma once

#include "lib/ptx/cp_async.cuh"

namespace rnnc {

constexpr int kDimChunks = ceil_div(kHeadDim, kChunk);  // of a state

constexpr int kStreamAhead = 8;  // streamed fragments of a warp on their way at once; a power of two

enum class Memory { kRegisters, kShared, kGlobal };

// Where R of a slot lies. Slots that are streamed lie evenly among the others, which are multiplied
// while they are on their way; of those the first lie in registers.
RNNC_CONSTEXPR Memory memory_of(int slot, int slots, int in_registers, int streamed) {
  const int before = slot * streamed / slots;  // slots before this one that are streamed
  if ((slot + 1) * streamed / slots > before) return Memory::kGlobal;
  return slot - before < in_registers ? Memory::kRegisters : Memory::kShared;
}

// Where a row of R begins that a lane multiplies, in elements; whether there is one.
struct RowPlace {
  int64 at;
  bool given;
};

// A word of R, zero where it is not given; `rounding` includes it. NOTE: predicated, where a choice of
// addresses would keep one in registers for every word; and no .nc, so that a barrier between two
// holds the second.
RNNC_INLINE u32 load_weight(const Element* from, bool given, bool whole, Rounding& rounding) {
  u32 word;
  if constexpr (kHeadDim % kPack == 0) {
    asm volatile(
        "{ .reg .pred given;\n"
        "setp.ne.u32 given, %2, 0;\n"
        "mov.u32 %0, 0;\n"
        "@given ld.global.u32 %0, [%1]; }"
        : "=r"(word)
        : "l"(from), "r"(static_cast<u32>(given))
        : "memory");
    return as_weight(word, rounding);
  } else {
    asm volatile(
        "{ .reg .pred given, whole;\n"
        ".reg .u16 first, second;\n"
        "setp.ne.u32 given, %2, 0;\n"
        "setp.ne.u32 whole, %3, 0;\n"
        "mov.u16 first, 0;\n"
        "mov.u16 second, 0;\n"
        "@given ld.global.u16 first, [%1];\n"
        "@whole ld.global.u16 second, [%1 + 2];\n"
        "mov.b32 %0, {first, second}; }"
        : "=r"(word)
        : "l"(from), "r"(static_cast<u32>(given)), "r"(static_cast<u32>(given && whole))
        : "memory");
    return word;
  }
}

RNNC_INLINE void load_fragment(u32 (&words)[4], u32 from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from));
}

template <typename Share>
struct SplitProduct {
  RNNC_CONSTEXPR int first_slot(int source) {
    int slots = 0;
    for (int i = 0; i < source; ++i) slots += Share::slots(i);
    return slots;
  }
  RNNC_CONSTEXPR int first_tile(int source) {
    int tiles = 0;
    for (int i = 0; i < source; ++i) tiles += Share::tiles(i);
    return tiles;
  }
  RNNC_CONSTEXPR int source_of(int slot) {
    int source = 0;
    while (source + 1 < kSources && slot >= first_slot(source + 1)) ++source;
    return source;
  }
  RNNC_CONSTEXPR Memory memory(int slot) {
    return Share::memory(source_of(slot), slot - first_slot(source_of(slot)));
  }
  // Fragments of R before a slot that lie in a memory.
  RNNC_CONSTEXPR int first_fragment(int slot, Memory where) {
    int fragments = 0;
    for (int i = 0; i < slot; ++i) {
      if (memory(i) == where) fragments += 2 * Share::tiles(source_of(i));
    }
    return fragments;
  }
  static constexpr int kSlots = first_slot(kSources), kTiles = first_tile(kSources);
  static constexpr int kRegisterFragments = first_fragment(kSlots, Memory::kRegisters);
  static constexpr int kSharedFragments = first_fragment(kSlots, Memory::kShared);
  static constexpr int kStreamedFragments = first_fragment(kSlots, Memory::kGlobal);
  static constexpr int kFragmentBytes = 32 * kLaneBytes;
  static constexpr int kRingBytes = kStreamedFragments ? kStreamAhead * kFragmentBytes : 0;
  static constexpr int kWarpBytes = kSharedFragments * kFragmentBytes + kRingBytes;
  static constexpr int kSharedBytes = Share::kWarps * kWarpBytes;
  static constexpr int kStreamedBytes = Share::kWarps * kStreamedFragments * kFragmentBytes;
  // An instruction waits for its accumulator: four of them take turns at least.
  static constexpr int kChains = ceil_div(4, kTiles * kPhaseTiles);
  using Accumulators = Sums<kChains>;
  // Reading all in vain takes long where it is much: then one lane first watches one word.
  static constexpr bool kWatches = kSlots * kPhaseTiles * Share::kWarps * kSlotChunkBytes > 16384;
  // Vectors that are on their way at once: all, or what 64 registers hold; half of those where R is
  // streamed, which takes longer than they do.
  static constexpr int kVectors = kStreamedFragments ? 8 : 16;
  static constexpr int kGather = smaller(kSlots, at_least_one(kVectors / kPhaseTiles));

  // Whether every lane's part of every slot is ever written; what is not counts as zero.
  RNNC_CONSTEXPR bool whole() {
    for (int i = 0; i < kSources; ++i) {
      if (Share::chunks(i) != Share::slots(i) * Share::kSharing) return false;
    }
    return kDimChunks * kChunk <= Share::kWritten;
  }
  static constexpr bool kWhole = whole();

  u32 fragment[at_least_one(kRegisterFragments)][4];
  Rounding rounding;     // of all fragments, wherever they lie
  u32 rest;              // where this lane's other fragments lie in shared memory, then its ring
  const char* streamed;  // where those lie that are streamed
  u32 ring_at;           // which byte of the ring has the first of them
  bool written[kSlots];  // this lane's part of a slot, unless kWhole

  // row(source, tile, half) gives a RowPlace, chunk_at(source, chunk) how far from there a chunk
  // lies. `warp` counts those that share K, `local_warp` those of this block.
  template <typename Row, typename ChunkAt>
  RNNC_MEMBER void load(char* shared, char* global, const Element* R, int warp, int local_warp,
                        int lane, const Row& row, const ChunkAt& chunk_at) {
    const int quad = lane & 3;
    rounding.begin();
    // The buffer has the blocks in the order of the launch.
    const int64 block = (int64{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    char* const own_global = global + block * kStreamedBytes +
                             local_warp * (kStreamedBytes / Share::kWarps) + lane * kLaneBytes;
    char* const own = shared + local_warp * kWarpBytes + lane * kLaneBytes;
    rest = static_cast<u32>(__cvta_generic_to_shared(own));
    unroll<kSlots>([&](auto slot_index) {
      constexpr int slot = decltype(slot_index)::value, source = source_of(slot);
      constexpr Memory where = memory(slot);
      constexpr int first_number = first_fragment(slot, where);
      const int chunk = warp * Share::slots(source) + slot - first_slot(source);
      const bool exists = kWhole || chunk < Share::chunks(source);
      // The first element of the chunk, from the first row on, and its k.
      const int64 first = chunk_at(source, chunk);
      const int k = chunk % kDimChunks * kChunk;
      written[slot] = exists && k + quad * 4 * kPack < Share::kWritten;
      unroll<2>([&](auto step_index) {
        constexpr int step = decltype(step_index)::value;
        unroll<Share::tiles(source)>([&](auto tile_index) {
          constexpr int tile = decltype(tile_index)::value;
          constexpr int number = first_number + step * Share::tiles(source) + tile;
          u32 words[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {  // word i / 2 of the step's two, half i % 2 of the tile
            const RowPlace place = row(source, tile, i % 2);
            const int own = (quad * 4 + 2 * step + i / 2) * kPack;
            const bool inside = kHeadDim % kChunk == 0 || k + own < kHeadDim;
            words[i] = load_weight(R + place.at + first + own, exists && place.given && inside,
                                   k + own + 1 < kHeadDim, rounding);
          }
          const uint4 all = make_uint4(words[0], words[1], words[2], words[3]);
          if constexpr (where == Memory::kRegisters) {
#pragma unroll
            for (int i = 0; i < 4; ++i) fragment[number][i] = words[i];
          } else if constexpr (where == Memory::kShared) {
            *reinterpret_cast<uint4*>(own + number * kFragmentBytes) = all;
          } else {
            *reinterpret_cast<uint4*>(own_global + number * kFragmentBytes) = all;
          }
          if constexpr (tile % 8 == 7 || tile + 1 == Share::tiles(source)) {
            __syncthreads();  // for the compiler, which moves no load across it
          }
        });
      });
    });
    rounding.settle();
    if constexpr (kStreamedFragments > 0) {
      streamed = own_global;
      ring_at = 0;
      __threadfence();  // copies read what this thread wrote, and keep no order with its stores
      unroll<kStreamAhead>([&](auto index) {
        constexpr int number = decltype(index)::value;
        send_for<number>(in_ring(number));
      });
    }
  }

  // Where the ring has a fragment that is streamed.
  RNNC_MEMBER u32 in_ring(int number) const {
    constexpr u32 first = kSharedFragments * kFragmentBytes;
    return rest + first + ((ring_at + number * kFragmentBytes) & (kRingBytes - 1));
  }
  template <int number>
  RNNC_MEMBER void send_for(u32 to) const {
    copy_vector_async<number % kStreamedFragments * kFragmentBytes>(to, streamed);
    commit_copies();
  }
  // Nothing may be on its way into shared memory that serves something else, or nobody, any more.
  RNNC_MEMBER void finish() const {
    if constexpr (kStreamedFragments > 0) wait_copies<0>();
  }

  // Waits for the words of this warp's slots and multiplies them. `states` is this lane's place in
  // the first chunk of source 0 and tile 0; place(source) where a source's chunks begin, tile_bytes
  // the distance between tiles of batch rows.
  template <typename Place>
  RNNC_MEMBER void multiply(Accumulators (&sum)[kTiles][kPhaseTiles], const char* states, int warp,
                            const Place& place, int tile_bytes, const Wait& wait) {
    const auto address = [&](int slot, int tile) {
      const int source = source_of(slot);
      const int chunk = warp * Share::slots(source);
      const char* const own = states + place(source) + chunk * kSlotChunkBytes;
      return own + (slot - first_slot(source)) * kSlotChunkBytes + tile * tile_bytes;
    };
    unroll<ceil_div(kSlots, kGather)>([&](auto batch_index) {
      constexpr int first = decltype(batch_index)::value * kGather;
      constexpr int count = smaller(kGather, kSlots - first);
      Watchdog watchdog;
      if constexpr (kWatches) {
        constexpr int last = first + count - 1;
        if ((threadIdx.x & 31) == 0 && (kWhole || written[last])) {
          const char* const word = address(last, kPhaseTiles - 1);
          while (read_word(word) == kAbsent) watchdog.turn(wait);
        }
        __syncwarp();
      }
      uint4 words[count][kPhaseTiles];
#pragma unroll
      for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int tile = 0; tile < kPhaseTiles; ++tile) words[i][tile] = make_uint4(0, 0, 0, 0);
      }
      unroll<count>([&](auto index) {
        constexpr int i = decltype(index)::value;
#pragma unroll
        for (int tile = 0; tile < kPhaseTiles; ++tile) {
          if (kWhole || written[first + i]) words[i][tile] = read_words(address(first + i, tile));
        }
      });
      const auto complete = [&]() {
        bool missing = false;
#pragma unroll
        for (int i = 0; i < count; ++i) {
#pragma unroll
          for (int tile = 0; tile < kPhaseTiles; ++tile) missing |= has_absent(words[i][tile]);
        }
        if (!__any_sync(~0u, missing)) return true;
        unroll<count>([&](auto index) {
          constexpr int i = decltype(index)::value;
#pragma unroll
          for (int tile = 0; tile < kPhaseTiles; ++tile) {
            if (has_absent(words[i][tile])) {
              words[i][tile] = read_words(address(first + i, tile));
            }
          }
        });
        return false;
      };
      // The clock stays out of the loop that nearly always ends the waiting.
      bool done = false;
      while (!done) {
#pragma unroll 1
        for (int turn = 0; turn < 1024 && !done; ++turn) done = complete();
        if (!done) watchdog.look(wait);
      }
      unroll<count>([&](auto index) {
        constexpr int i = decltype(index)::value, slot = first + i, source = source_of(slot);
        constexpr int tiles = Share::tiles(source);
        constexpr Memory where = memory(slot);
        constexpr int first_number = first_fragment(slot, where);
        unroll<2>([&](auto step_index) {
          constexpr int half = decltype(step_index)::value;
          unroll<tiles>([&](auto tile_index) {
            constexpr int tile = decltype(tile_index)::value;
            constexpr int number = first_number + half * tiles + tile;
            u32 weights[4];
            if constexpr (where == Memory::kRegisters) {
#pragma unroll
              for (int k = 0; k < 4; ++k) weights[k] = fragment[number][k];
            } else if constexpr (where == Memory::kShared) {
              load_fragment(weights, rest + number * kFragmentBytes);
            } else {
              wait_copies<kStreamAhead - 1>();
              load_fragment(weights, in_ring(number));
            }
#pragma unroll
            for (int n = 0; n < kPhaseTiles; ++n) {
              const uint4 w = words[i][n];
              auto& own = sum[first_tile(source) + tile][n];
              own.template add<2 * slot + half>(weights, half ? w.z : w.x, half ? w.w : w.y,
                                                rounding);
            }
            if constexpr (where == Memory::kGlobal) {
              send_for<number + kStreamAhead>(in_ring(number));
            }
          });
        });
      });
    });
    if constexpr (kStreamedFragments > 0) ring_at += kStreamedFragments * kFragmentBytes;
  }
};

}  // namespace rnnc
