// SplitK: the product of a block's part of R with the states, K split over its warps.
//
// R lies in registers; what those cannot hold in shared memory; what that cannot hold either in
// global memory, from where it is streamed in every step: a ring in shared memory receives the next
// fragments in the order of the product, and those of the next step after the last. A thread reads
// only what it wrote and copied itself, so no synchronisation is needed.
//
// Every warp multiplies all tiles of the block by k_tiles of its own. So each byte of the states
// enters the block once, straight into the registers that a matrix instruction reads. The partials
// of the warps are added afterwards, through shared memory.
//
// A `KRange` describes the split: kHeadDim; kDimKTiles, k_tiles per state; kPhaseTiles, tiles of
// batch rows; kWarps, warps per block; warp_k_tiles(source), k_tiles per warp of each source;
// tiles(source), tiles of 16 rows of R; k_tiles(source), all of a source; memory(source, k_tile),
// where R of a warp's k_tile lies; kSharingWarps, warps that share K, in other blocks too;
// kWrittenElements, elements of a state that are ever written.
#pragma once

#include "lib/kernels/split_k_gather.cuh"
#include "lib/kernels/split_k_weights.cuh"
#include "lib/mma/accumulator.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/ptx/launder.cuh"

namespace rnnc {

template <typename KRange>
struct SplitK {
  static constexpr int kHeadDim = KRange::kHeadDim, kDimKTiles = KRange::kDimKTiles;
  static constexpr int kPhaseTiles = KRange::kPhaseTiles;
  RNNC_CONSTEXPR int first_warp_k_tile(int source) {
    return sum_before(source, KRange::warp_k_tiles);
  }
  RNNC_CONSTEXPR int first_tile(int source) { return sum_before(source, KRange::tiles); }
  RNNC_CONSTEXPR int source_of(int k_tile) {
    int source = 0;
    while (source + 1 < Cell::kSources && k_tile >= first_warp_k_tile(source + 1)) ++source;
    return source;
  }
  RNNC_CONSTEXPR Memory memory(int k_tile) {
    return KRange::memory(source_of(k_tile), k_tile - first_warp_k_tile(source_of(k_tile)));
  }
  // The fragments in a memory of all k_tiles before this one.
  RNNC_CONSTEXPR int first_fragment(int k_tile, Memory where) {
    return sum_before(
        k_tile, [=](int i) { return memory(i) == where ? 2 * KRange::tiles(source_of(i)) : 0; });
  }
  static constexpr int kWarpKTiles = first_warp_k_tile(Cell::kSources),
                       kTiles = first_tile(Cell::kSources);
  static constexpr int kRegisterFragments = first_fragment(kWarpKTiles, Memory::kRegisters);
  static constexpr int kSharedFragments = first_fragment(kWarpKTiles, Memory::kShared);
  static constexpr int kStreamedFragments = first_fragment(kWarpKTiles, Memory::kGlobal);
  static constexpr int kFragmentBytes = 32 * kLaneBytes;
  static constexpr int kRingBytes = kStreamedFragments ? kStreamStages * kFragmentBytes : 0;
  static constexpr int kWarpBytes = kSharedFragments * kFragmentBytes + kRingBytes;
  static constexpr int kSharedBytes = KRange::kWarps * kWarpBytes;
  static constexpr int kStreamedBytes = KRange::kWarps * kStreamedFragments * kFragmentBytes;
  // An instruction waits for its accumulator, so there are at least four.
  static constexpr int kNumAccumulators = ceil_div(4, kTiles* kPhaseTiles);
  using Accumulators = Accumulator<kNumAccumulators>[kTiles][kPhaseTiles];
  // Polling a large gather is expensive, so above 16 KiB one lane polls one word first.
  static constexpr bool kPollsOneWord =
      kWarpKTiles * kPhaseTiles * KRange::kWarps * kTileKTileBytes > 16384;
  // Vectors in flight: as many as 64 registers hold, or half of those if R is streamed, since
  // streaming takes longer than the gather.
  static constexpr int kVectors = kStreamedFragments ? 8 : 16;
  static constexpr int kGather = minimum(kWarpKTiles, at_least_one(kVectors / kPhaseTiles));

  // Whether every lane's part of every k_tile is ever written; what is not written counts as zero.
  RNNC_CONSTEXPR bool full() {
    for (int i = 0; i < Cell::kSources; ++i) {
      if (KRange::k_tiles(i) != KRange::warp_k_tiles(i) * KRange::kSharingWarps) return false;
    }
    return kDimKTiles * kKTile <= KRange::kWrittenElements;
  }
  static constexpr bool kFull = full();
  // Of cells with many pairs ptxas for sm_90a derives in every step what is written, and spills:
  // pinned, it took 144 registers instead of more than 255 (nas_cell in float32).
  static constexpr bool kPinsWritten = !kFull && kPack == 1 && Cell::kDensePairs > 6;

  u32 fragment[at_least_one(kRegisterFragments)][4];
  Rounding rounding;          // of all fragments, in any memory
  u32 shared_fragments;       // address of this lane's fragments in shared memory, then of its ring
  const char* streamed;       // this lane's streamed fragments
  u32 ring_begin;             // offset in the ring of the first streamed fragment
  bool written[kWarpKTiles];  // this lane's part of a k_tile, unless kFull

  // row_at(source, tile, half) gives a RowRef, and k_tile_at(source, k_tile) the distance of a
  // k_tile from there. `warp` counts the warps that share K, `local_warp` those of this block.
  template <typename RowAt, typename KTileAt>
  RNNC_MEMBER void load(char* shared, char* global, const Element* R, int warp, int local_warp,
                        int lane, const RowAt& row_at, const KTileAt& k_tile_at) {
    const int quad = lane & 3;
    rounding.begin();
    // The streamed buffer has the blocks in launch order.
    const int64 block = (int64{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    char* const warp_streamed = global + block * kStreamedBytes +
                                local_warp * (kStreamedBytes / KRange::kWarps) + lane * kLaneBytes;
    char* const warp_shared = shared + local_warp * kWarpBytes + lane * kLaneBytes;
    shared_fragments = shared_address(warp_shared);
    unroll<kWarpKTiles>([&](auto k_tile) {
      constexpr int source = source_of(k_tile), tiles = KRange::tiles(source);
      constexpr Memory where = memory(k_tile);
      constexpr int first_number = first_fragment(k_tile, where);
      const int global_k_tile =
          warp * KRange::warp_k_tiles(source) + k_tile - first_warp_k_tile(source);
      const bool exists = kFull || global_k_tile < KRange::k_tiles(source);
      // The distance of the k_tile from the row's first element, and its k.
      const int64 first = k_tile_at(source, global_k_tile);
      const int k = global_k_tile % kDimKTiles * kKTile;
      const bool part = exists && k + quad * 4 * kPack < KRange::kWrittenElements;
      if constexpr (kPinsWritten) {
        written[k_tile] = pin(int{part});
      } else {
        written[k_tile] = part;
      }
      unroll<2 * tiles>([&](auto index) {
        constexpr int step = index / tiles, tile = index % tiles;
        u32 words[4];
        repeat<4>([&](int i) {  // word i / 2 of the mma step's two, half i % 2 of the tile
          const RowRef ref = row_at(source, tile, i % 2);
          const int element = (quad * 4 + 2 * step + i / 2) * kPack;
          const bool in_bounds = kHeadDim % kKTile == 0 || k + element < kHeadDim;
          words[i] = ld_global_weight<kHeadDim>(R + ref.offset + first + element,
                                                exists && ref.valid && in_bounds,
                                                k + element + 1 < kHeadDim, rounding);
        });
        constexpr int number = first_number + index;
        if constexpr (where == Memory::kRegisters) {
          assign(fragment[number], words);
        } else {
          char* const to = where == Memory::kShared ? warp_shared : warp_streamed;
          *reinterpret_cast<uint4*>(to + number * kFragmentBytes) =
              make_uint4(words[0], words[1], words[2], words[3]);
        }
        if constexpr (tile % 8 == 7 || tile + 1 == tiles) limit_loads_in_flight();
      });
    });
    rounding.settle();
    if constexpr (kStreamedFragments > 0) {
      streamed = warp_streamed;
      ring_begin = 0;
      // The copies read what this thread wrote, and are not ordered with its stores.
      __threadfence();
      unroll<kStreamStages>([&](auto number) { prefetch_fragment<number>(ring_address(number)); });
    }
  }

  // The address in the ring of a streamed fragment.
  RNNC_MEMBER u32 ring_address(int number) const {
    constexpr u32 first = kSharedFragments * kFragmentBytes;
    return shared_fragments + first + ((ring_begin + number * kFragmentBytes) & (kRingBytes - 1));
  }
  template <int number>
  RNNC_MEMBER void prefetch_fragment(u32 to) const {
    cp_async_16<number % kStreamedFragments * kFragmentBytes>(to, streamed);
    cp_async_commit();
  }
  // No copy may be in flight into shared memory when the block exits.
  RNNC_MEMBER void finish() const {
    if constexpr (kStreamedFragments > 0) cp_async_wait<0>();
  }

  // Waits for the words of this warp's k_tiles and multiplies them. `states` is this lane's address
  // in the first k_tile of source 0 and tile 0, source_offset(source) the distance of a source's
  // k_tiles from there, and tile_bytes the distance between tiles of batch rows.
  template <typename SourceOffset>
  RNNC_MEMBER void multiply(Accumulators& sum, const char* states, int warp,
                            const SourceOffset& source_offset, int tile_bytes, const Wait& wait) {
    repeat<kTiles>([&](int tile) { repeat<kPhaseTiles>([&](int n) { sum[tile][n].clear(); }); });
    const auto address = [&](auto k_tile, int tile) {
      constexpr int source = source_of(k_tile);
      const int global_k_tile = warp * KRange::warp_k_tiles(source);
      const char* const first = states + source_offset(source) + global_k_tile * kTileKTileBytes;
      return first + (k_tile - first_warp_k_tile(source)) * kTileKTileBytes + tile * tile_bytes;
    };
    unroll<ceil_div(kWarpKTiles, kGather)>([&](auto batch) {
      constexpr int first = batch * kGather, count = minimum(kGather, kWarpKTiles - first);
      uint4 words[count][kPhaseTiles];
      gather<kPollsOneWord>(
          words, [&](auto i, int tile) { return address(Index<first + i>{}, tile); },
          [&](int i) { return kFull || written[first + i]; }, wait);
      unroll<count>([&](auto i) {
        constexpr int k_tile = first + i;
        unroll<2 * KRange::tiles(source_of(k_tile))>(
            [&](auto index) { multiply_fragment<k_tile, index>(sum, words[i]); });
      });
    });
    if constexpr (kStreamedFragments > 0) ring_begin += kStreamedFragments * kFragmentBytes;
  }

  // Multiplies one fragment of R, `index` among those of its k_tile, by all tiles of batch rows.
  template <int k_tile, int index>
  RNNC_MEMBER void multiply_fragment(Accumulators& sum, const uint4 (&words)[kPhaseTiles]) const {
    constexpr int source = source_of(k_tile), tiles = KRange::tiles(source);
    constexpr int half = index / tiles, tile = index % tiles;
    constexpr Memory where = memory(k_tile);
    constexpr int number = first_fragment(k_tile, where) + index;
    u32 weights[4];
    if constexpr (where == Memory::kRegisters) {
      assign(weights, fragment[number]);
    } else if constexpr (where == Memory::kShared) {
      ld_shared_fragment(weights, shared_fragments + number * kFragmentBytes);
    } else {
      cp_async_wait<kStreamStages - 1>();
      ld_shared_fragment(weights, ring_address(number));
    }
    repeat<kPhaseTiles>([&](int n) {
      const uint4 w = words[n];
      sum[first_tile(source) + tile][n].template add<2 * k_tile + half>(weights, half ? w.z : w.x,
                                                                        half ? w.w : w.y, rounding);
    });
    if constexpr (where == Memory::kGlobal) {
      prefetch_fragment<number + kStreamStages>(ring_address(number));
    }
  }
};

}  // namespace rnnc
