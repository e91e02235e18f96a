// FusedProduct: the product of a fused step, which reads R from L2 in every step, as fragments.
//
// A block owns 8 units and kRows batch rows. Batch rows are the A operand of the matrix
// instructions, in tiles of 16; R is B, in strips of 8 of its rows (in the backward, of its
// columns). Both lie in memory in the order in which the lanes of a warp read them, 16 bytes each:
// for each k_tile, a strip of R has one such piece of 512 bytes and a tile of rows has two. R is
// packed so once per call, rows as they are written. The k_tiles are dealt to the warps in turn,
// and the warps' partials are added through shared memory.
//
// R does not depend on the step, so a block loads its first k_tiles before it waits for the step
// before.
#pragma once

#include "lib/kernels/alternating/workspace.cuh"
#include "lib/mma/accumulator.cuh"
#include "lib/ptx/griddepcontrol.cuh"

namespace rnnc::alternating {

RNNC_INLINE void load_vector(u32 (&w)[4], const char* from) {
  const uint4 words = ld_relaxed_gpu_v4(from);
  w[0] = words.x;
  w[1] = words.y;
  w[2] = words.z;
  w[3] = words.w;
}

constexpr int kRows = Plan::kRowTiles * kTileRows;
constexpr int kItems = 8 * kRows;
constexpr int kStripBytes = 512;
constexpr int kTileBytes = 1024;
static_assert(kItems <= 32 * Plan::kWarps, "a thread has at most one item");

// A `KRange` says what a block multiplies: strips(source). A warp issues the loads of
// Plan::kNumStages k_tiles before it multiplies the first.
template <typename KRange>
struct FusedProduct {
  RNNC_CONSTEXPR int first_strip(int source) { return sum_before(source, KRange::strips); }
  static constexpr int kStrips = first_strip(Cell::kSources);
  // An instruction waits for its accumulator, so a few tiles need two each.
  static constexpr int kNumAccumulators = kStrips * Plan::kRowTiles < 4 ? 2 : 1;
  static constexpr int kPartials = Plan::kWarps * kStrips * kItems;  // floats of all warps

  u32 weights[Plan::kNumStages][kStrips][4];
  Accumulator<kNumAccumulators> sum[kStrips][Plan::kRowTiles];
  // This lane's address in the warp's first k_tile of R and of the rows, and the number of its
  // k_tiles.
  const char *weights_from[Cell::kSources], *rows[Cell::kSources];
  int count[Cell::kSources];

  // Issues the first loads of R: the k_tiles from `begin` to `end` of a source, from this block's
  // strips.
  template <int source>
  RNNC_MEMBER void prefetch_weights(const Element* strips, int begin, int end) {
    const int first = begin + (threadIdx.x >> 5);
    count[source] = first < end ? ceil_div(end - first, Plan::kWarps) : 0;
    weights_from[source] =
        launder(reinterpret_cast<const char*>(strips) + (threadIdx.x & 31) * 16 +
                static_cast<int64>(first) * KRange::strips(source) * kStripBytes);
    unroll<Plan::kNumStages>(
        [&](auto stage) { load_k_tile<source, decltype(stage)::value>(decltype(stage)::value); });
    repeat<KRange::strips(source)>([&](int strip) {
      repeat<Plan::kRowTiles>([&](int tile) { sum[first_strip(source) + strip][tile].clear(); });
    });
  }
  // Sets the address of the same k_tiles of the rows, which are not loaded yet.
  template <int source>
  RNNC_MEMBER void set_rows(const Element* tiles, int begin) {
    rows[source] = launder(reinterpret_cast<const char*>(tiles) + (threadIdx.x & 31) * 16 +
                           static_cast<int64>(begin + (threadIdx.x >> 5)) * kTileBytes);
  }

  // `tile_bytes` is the distance between tiles of rows.
  template <int source>
  RNNC_MEMBER void multiply(int64 tile_bytes) {
    u32 words[Plan::kNumStages][Plan::kRowTiles][2][4];
    const auto load_rows = [&](auto stage, int i) {
      if (i >= count[source]) return;
      repeat<Plan::kRowTiles>([&](int tile) {
        const char* from = rows[source] + tile * tile_bytes + i * Plan::kWarps * kTileBytes;
        load_vector(words[decltype(stage)::value][tile][0], from);
        load_vector(words[decltype(stage)::value][tile][1], from + kTileBytes / 2);
      });
    };
    unroll<Plan::kNumStages>([&](auto stage) { load_rows(stage, decltype(stage)::value); });
#pragma unroll 1
    for (int i = 0; i < count[source]; i += Plan::kNumStages) {
      unroll<Plan::kNumStages>([&](auto stage_index) {
        constexpr int stage = stage_index;
        if (i + stage >= count[source]) return;
        unroll<2>([&](auto mma_step_index) {
          constexpr int mma_step = mma_step_index;
          repeat<KRange::strips(source)>([&](int strip) {
            const u32(&w)[4] = weights[stage][first_strip(source) + strip];
            repeat<Plan::kRowTiles>([&](int tile) {
              sum[first_strip(source) + strip][tile].template add<mma_step>(
                  words[stage][tile][mma_step], w[2 * mma_step], w[2 * mma_step + 1], Rounding{});
            });
          });
        });
        load_k_tile<source, stage>(i + stage + Plan::kNumStages);
        load_rows(stage_index, i + stage + Plan::kNumStages);
      });
    }
  }

  // Stores the warp's partials, [warps, strips, rows, 8]; `total` reads them after a barrier.
  RNNC_MEMBER void store_partials(float* partials) const {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    repeat<kStrips>([&](int strip) {
      repeat<Plan::kRowTiles>([&](int tile) {
        float* to = partials + (warp * kStrips + strip) * kItems + 8 * kTileRows * tile + 2 * lane;
        const auto& s = sum[strip][tile];
        *reinterpret_cast<float2*>(to) = make_float2(s.total(0), s.total(1));
        *reinterpret_cast<float2*>(to + 64) = make_float2(s.total(2), s.total(3));
      });
    });
  }
  // The partial of one item, or of as many neighbouring items as T has numbers.
  template <typename T>
  static RNNC_MEMBER T partial(const float* partials, int warp, int strip, int item) {
    return *reinterpret_cast<const T*>(partials + (warp * kStrips + strip) * kItems + item);
  }
  static RNNC_MEMBER float total(const float* partials, int strip, int item) {
    float sum = 0;
    repeat<Plan::kWarps>([&](int warp) { sum += partial<float>(partials, warp, strip, item); });
    return sum;
  }
  static RNNC_MEMBER float2 total_pair(const float* partials, int strip, int item) {
    float2 sum = make_float2(0, 0);
    repeat<Plan::kWarps>([&](int warp) {
      const float2 pair = partial<float2>(partials, warp, strip, item);
      sum.x += pair.x;
      sum.y += pair.y;
    });
    return sum;
  }

 private:
  template <int source, int stage>
  RNNC_MEMBER void load_k_tile(int i) {
    if (i >= count[source]) return;
    repeat<KRange::strips(source)>([&](int strip) {
      ld_global_v4(
          weights[stage][first_strip(source) + strip],
          weights_from[source] + (i * Plan::kWarps * KRange::strips(source) + strip) * kStripBytes);
    });
  }
};

}  // namespace rnnc::alternating
