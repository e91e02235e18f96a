// A block's share of R times the states, K split over its warps.
//
// Every warp multiplies all tiles of the block by chunks of K of its own, so that each byte of the
// states enters the block once, straight into the registers that a matrix instruction reads. What
// the warps found is added afterwards, through shared memory.
//
// A `Share` says how: kWarps, those of a block; slots(source), chunks that a warp has of each
// source; tiles(source), tiles of 16 rows of R; chunks(source), all there are; in_registers(source,
// slot), whether R of a slot lies in registers, or else in shared memory; kSharing, the warps that
// share K, of other blocks too; kWritten, elements of a state that are ever written.
#pragma once

namespace rnnc {

constexpr int kDimChunks = ceil_div(kHeadDim, kChunk);  // of a state

// Where a row of R begins that a lane multiplies, in elements; whether there is one.
struct RowPlace {
  int64 at;
  bool given;
};

// A word of R, zero where it is not given. NOTE: predicated, where a choice of addresses would keep
// one in registers for every word; and no .nc, so that a barrier between two holds the second.
RNNC_INLINE u32 load_weight(const Element* from, bool given, bool whole) {
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
    return quiet(word);
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
  RNNC_CONSTEXPR bool in_registers(int slot) {
    return Share::in_registers(source_of(slot), slot - first_slot(source_of(slot)));
  }
  // Fragments of R before a slot, in registers or in shared memory.
  RNNC_CONSTEXPR int first_fragment(int slot, bool registers) {
    int fragments = 0;
    for (int i = 0; i < slot; ++i) {
      if (in_registers(i) == registers) fragments += 2 * Share::tiles(source_of(i));
    }
    return fragments;
  }
  static constexpr int kSlots = first_slot(kSources), kTiles = first_tile(kSources);
  static constexpr int kRegisterFragments = first_fragment(kSlots, true);
  static constexpr int kSharedFragments = first_fragment(kSlots, false);
  static constexpr int kWarpBytes = kSharedFragments * 32 * kLaneBytes;
  static constexpr int kSharedBytes = Share::kWarps * kWarpBytes;
  // An instruction waits for its accumulator: four of them take turns at least.
  static constexpr int kChains = ceil_div(4, kTiles * kPhaseTiles);
  using Accumulators = Sums<kChains>;
  // Reading all in vain takes long where it is much: then one lane first watches one word.
  static constexpr bool kWatches = kSlots * kPhaseTiles * Share::kWarps * kSlotChunkBytes > 16384;
  // Vectors that are on their way at once: all, or what 64 registers hold.
  static constexpr int kGather = smaller(kSlots, at_least_one(16 / kPhaseTiles));

  // Whether every lane's part of every slot is ever written; what is not counts as zero.
  RNNC_CONSTEXPR bool whole() {
    for (int i = 0; i < kSources; ++i) {
      if (Share::chunks(i) != Share::slots(i) * Share::kSharing) return false;
    }
    return kDimChunks * kChunk <= Share::kWritten;
  }
  static constexpr bool kWhole = whole();

  u32 fragment[at_least_one(kRegisterFragments)][4];
  u32 rest;  // where this lane's other fragments lie in shared memory
  bool written[kSlots];  // this lane's part of a slot, unless kWhole

  // row(source, tile, half) gives a RowPlace, chunk_at(source, chunk) how far from there a chunk
  // lies. `warp` counts those that share K, `local_warp` those of this block.
  template <typename Row, typename ChunkAt>
  RNNC_MEMBER void load(char* shared, const Element* R, int warp, int local_warp, int lane,
                        const Row& row, const ChunkAt& chunk_at) {
    const int quad = lane & 3;
    char* const own = shared + local_warp * kWarpBytes + lane * kLaneBytes;
    rest = static_cast<u32>(__cvta_generic_to_shared(own));
    unroll<kSlots>([&](auto slot_index) {
      constexpr int slot = decltype(slot_index)::value, source = source_of(slot);
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
          constexpr int number =
              first_fragment(slot, in_registers(slot)) + step * Share::tiles(source) + tile;
          u32 words[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {  // word i / 2 of the step's two, half i % 2 of the tile
            const RowPlace place = row(source, tile, i % 2);
            const int own = (quad * 4 + 2 * step + i / 2) * kPack;
            const bool inside = kHeadDim % kChunk == 0 || k + own < kHeadDim;
            words[i] = load_weight(R + place.at + first + own, exists && place.given && inside,
                                   k + own + 1 < kHeadDim);
          }
          if constexpr (in_registers(slot)) {
#pragma unroll
            for (int i = 0; i < 4; ++i) fragment[number][i] = words[i];
          } else {
            *reinterpret_cast<uint4*>(own + number * 32 * kLaneBytes) =
                make_uint4(words[0], words[1], words[2], words[3]);
          }
          if constexpr (tile % 8 == 7 || tile + 1 == Share::tiles(source)) {
            __syncthreads();  // for the compiler, which moves no load across it
          }
        });
      });
    });
  }

  // Waits for the words of this warp's slots and multiplies them. `states` is this lane's place in
  // the first chunk of source 0 and tile 0; place(source) where a source's chunks begin, tile_bytes
  // the distance between tiles of batch rows.
  template <typename Place>
  RNNC_MEMBER void multiply(Accumulators (&sum)[kTiles][kPhaseTiles], const char* states, int warp,
                            const Place& place, int tile_bytes, int step) const {
    const auto address = [&](int slot, int tile) {
      const int source = source_of(slot);
      const int chunk = warp * Share::slots(source);
      const char* const own = states + place(source) + chunk * kSlotChunkBytes;
      return own + (slot - first_slot(source)) * kSlotChunkBytes + tile * tile_bytes;
    };
    unroll<ceil_div(kSlots, kGather)>([&](auto batch_index) {
      constexpr int first = decltype(batch_index)::value * kGather;
      constexpr int count = smaller(kGather, kSlots - first);
      Patience patience;
      if constexpr (kWatches) {
        constexpr int last = first + count - 1;
        if ((threadIdx.x & 31) == 0 && (kWhole || written[last])) {
          const char* const word = address(last, kPhaseTiles - 1);
          while (read_word(word) == kAbsent) patience.lose(step);
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
        if (!done) patience.lose(step);
      }
      unroll<count>([&](auto index) {
        constexpr int i = decltype(index)::value, slot = first + i, source = source_of(slot);
        constexpr int tiles = Share::tiles(source);
        unroll<2>([&](auto step_index) {
          constexpr int half = decltype(step_index)::value;
          unroll<tiles>([&](auto tile_index) {
            constexpr int tile = decltype(tile_index)::value;
            constexpr int number = first_fragment(slot, in_registers(slot)) + half * tiles + tile;
            u32 weights[4];
            if constexpr (in_registers(slot)) {
#pragma unroll
              for (int k = 0; k < 4; ++k) weights[k] = fragment[number][k];
            } else {
              constexpr int offset = number * 32 * kLaneBytes;
              asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                           : "=r"(weights[0]), "=r"(weights[1]), "=r"(weights[2]), "=r"(weights[3])
                           : "r"(rest + offset));
            }
#pragma unroll
            for (int n = 0; n < kPhaseTiles; ++n) {
              const uint4 w = words[i][n];
              auto& own = sum[first_tile(source) + tile][n];
              own.template add<2 * slot + half>(weights, half ? w.z : w.x, half ? w.w : w.y);
            }
          });
        });
      });
    });
  }
};

}  // namespace rnnc
