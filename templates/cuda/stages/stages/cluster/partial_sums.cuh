// PartialSums: the totals of a stage's products, of which warps have parts.
//
// Warps that share K of the same units have parts of all tiles, and warps that share a tile of an
// odd gate have parts of that. They give each other parts through shared memory. One buffer is
// enough: a warp that writes a part has waited for an exchange of the cluster, to which its reader
// pushed after reading the parts of the last product.
#pragma once

#include "lib/stages/cluster/weights_forward.cuh"

namespace rnnc::cluster_forward {

// Warps that have parts of a shared tile, and warps that take a half of it.
constexpr int kSharers = 2 * Plan::kSplits;
constexpr int kTakers = minimum(Plan::kSplits, 2);
// What one warp gives another of a shared tile.
constexpr int kSharedPartBytes = 32 * kItems * static_cast<int>(sizeof(float));
constexpr int kSharedTileBytes = 2 * kTakers * kSharers * kSharedPartBytes;
constexpr int kSharedTilesBytes = kShares ? kGroups / 2 * kOddSources * kSharedTileBytes : 0;

struct PartialSums {
  char* parts;  // of the warps that share K, for this lane
  // Of the warps that share tiles, for this lane: where it gives a part to taker 0 of the own half
  // and of the other one, and where the parts lie that it takes. NOTE: pinned, as all of what tells
  // warps apart: the compiler would read the thread's index again in each step.
  u32 own_half, other_half, taken;
  int split, group;
  bool odd;  // the group

  RNNC_MEMBER void prepare(char* layout_parts, u32 tile_parts, int own_group, int own_split,
                           int lane) {
    group = pin(own_group);
    split = pin(own_split);
    odd = pin(group & 1);
    parts = layout_parts + group * 2 * (Plan::kSplits - 1) * kPartialBytes + lane * 8;
    const u32 pair = tile_parts + group / 2 * kOddSources * kSharedTileBytes +
                     lane * kItems * static_cast<int>(sizeof(float));
    const auto part = [&](int half, int taker, int sharer) -> u32 {
      return pair + ((half * kTakers + taker) * kSharers + sharer) * kSharedPartBytes;
    };
    const int sharer = (group & 1) * Plan::kSplits + split;
    own_half = pin(part(group & 1, 0, sharer));
    other_half = pin(part(1 - (group & 1), 0, sharer));
    taken = pin(part(group & 1, Plan::kSplits == 1 ? 0 : split & 1, 0));
  }

  // The totals of a stage's tiles; of a shared one in its first half. `computes`: this warp takes
  // some.
  template <int stage>
  RNNC_MEMBER void add(Totals& total, const StageProduct<stage>& product, bool computes) const {
    constexpr bool has_shared = shares(stage);
    for_tiles<stage>([&](auto source, auto tile, auto is_shared) {
      if constexpr (is_shared) {
        give_shared(total[tile][0], product[tile], odd_before(source));
      } else {
        give(total[tile], product[tile], tile);
      }
    });
    if constexpr (kShares && (has_shared || Plan::kSplits > 1)) {
      meet<64 * Plan::kSplits>(group / 2 + 1);
    } else if constexpr (Plan::kSplits > 1) {
      meet<32 * Plan::kSplits>(group + 1);
    }
    if (!computes) return;
    for_tiles<stage>([&](auto source, auto tile, auto is_shared) {
      if constexpr (is_shared) {
        take_shared(total[tile][0], odd_before(source));
      } else {
        take(total[tile], tile);
      }
    });
  }

 private:
  RNNC_CONSTEXPR int odd_before(int source) {
    int count = 0;
    for (int i = 0; i < source; ++i) count += is_odd(i);
    return count;
  }
  RNNC_CONSTEXPR bool shares(int stage) {
    bool any = false;
    for (int i = 0; i < Cell::kSources; ++i) {
      any |= kShares && kSourceStage[i] == stage && is_odd(i);
    }
    return any;
  }
  // body(source, tile, is_shared) for each tile of a stage.
  template <int stage, typename Body>
  static RNNC_MEMBER void for_tiles(const Body& body) {
    for_sources_of<stage>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      unroll<Tiles::tiles(source)>([&](auto index) {
        constexpr int i = decltype(index)::value;
        body(source_index, Index<Tiles::first_tile(source) + i>{},
             Index<is_shared_half(source, 2 * i)>{});
      });
    });
  }
  // A barrier of some warps of the block.
  template <int threads>
  static RNNC_MEMBER void meet(int number) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
  }

  // Of two halves of a tile.
  template <int n>
  RNNC_MEMBER void give(float (&total)[2][kItems], const Accumulator<n>& product, int tile) const {
    repeat<kTakers>([&](int taker) {
      if constexpr (Plan::kSplits == 1) {
        repeat<4>([&](int i) { total[i / 2][i % 2] = product.total(i); });
      } else {
        const float2 both = {product.total(taker), product.total(2 + taker)};
        if (split == taker) {
          total[0][0] = both.x;
          total[1][0] = both.y;
        } else {
          *part(taker, split - (split > taker), tile) = both;
        }
      }
    });
  }
  RNNC_MEMBER void take(float (&total)[2][kItems], int tile) const {
    repeat<Plan::kSplits - 1>([&](int other) {
      const float2 both = *part(split, other, tile);
      total[0][0] += both.x;
      total[1][0] += both.y;
    });
  }
  RNNC_MEMBER float2* part(int taker, int other, int tile) const {
    return reinterpret_cast<float2*>(
        parts + (taker * (Plan::kSplits - 1) + other) * kPartialBytes + tile * 256);
  }

  // Of a shared tile, one half of which is of this warp's units. Without branches: a warp writes
  // what it keeps too, where another one takes the same half.
  template <int n>
  RNNC_MEMBER void give_shared(float (&total)[kItems], const Accumulator<n>& product,
                               int number) const {
    const float first[2] = {product.total(0), product.total(1)};
    const float second[2] = {product.total(2), product.total(3)};
    float own[2], other[2];
    repeat<2>([&](int j) {
      own[j] = odd ? second[j] : first[j];
      other[j] = odd ? first[j] : second[j];
    });
    const int offset = number * kSharedTileBytes;
    if constexpr (kItems == 2) {
      *reinterpret_cast<float2*>(shared_pointer(other_half + offset)) = {other[0], other[1]};
      repeat<kItems>([&](int j) { total[j] = own[j]; });
    } else {
      repeat<2>([&](int taker) {
        const int to = offset + taker * kSharers * kSharedPartBytes;
        *reinterpret_cast<float*>(shared_pointer(own_half + to)) = own[taker];
        *reinterpret_cast<float*>(shared_pointer(other_half + to)) = other[taker];
      });
    }
  }
  RNNC_MEMBER void take_shared(float (&total)[kItems], int number) const {
    const u32 from = taken + number * kSharedTileBytes;
    if constexpr (kItems == 2) {
      // The other warp's part is the second one of an even group, the first one of an odd group.
      const float2 both =
          *reinterpret_cast<const float2*>(shared_pointer(from + (odd ? 0 : kSharedPartBytes)));
      total[0] += both.x;
      total[kItems - 1] += both.y;
    } else {
      float sum = 0;
      repeat<kSharers>([&](int sharer) {
        sum += *reinterpret_cast<const float*>(shared_pointer(from + sharer * kSharedPartBytes));
      });
      total[0] = sum;
    }
  }
};

}  // namespace rnnc::cluster_forward
