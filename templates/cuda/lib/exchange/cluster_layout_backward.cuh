// What the backward of a cluster keeps where: R transposed in registers; gradients, sums of the peers
// and what is read ahead in shared memory. See cluster_backward.cuh.
#pragma once

#include "lib/mma/backward_rows.cuh"

namespace rnnc {

constexpr int kTileUnits = 16;
constexpr int kBlockTiles = kBackwardUnits / kTileUnits;  // of the units of a block
constexpr int kTiles = kBackwardCluster * kBlockTiles;    // of a source
constexpr int kTileSlots = ceil_div(kTiles, kBackwardWarps);  // of a warp
using BackwardK = PairUnits<kBackwardUnits>;
constexpr int kBackwardChunks = at_least_one(BackwardK::first_chunk(kSources));
using GradientExchange = Exchange<kBackwardChunks * kChunk>;
// Independent sums hide the latency of an instruction; of float32, of three and an addition.
constexpr int kBackwardChains = kPack == 1 ? 2 : kTileSlots == 1 ? 4 : kTileSlots < 4 ? 2 : 1;

// 32 items, (unit, column), are four units of all columns: the items of a warp at a time.
constexpr int kItemUnits = 4;
constexpr int kWarpItems = kBackwardUnits / kItemUnits;               // such groups, of a block
constexpr int kBackwardItems = ceil_div(kWarpItems, kBackwardWarps);  // of a warp
using KeptCopy = WarpCopy<kSaved, kItemUnits, kColumns>;
using StateCopy = WarpCopy<1, kItemUnits, kColumns>;

// Sums from one block for the units of another, for one source.
constexpr int kShareBytes = kBackwardUnits * kColumns * static_cast<int>(sizeof(float));
constexpr int kSharesBuffer = kSources * kBackwardCluster * kShareBytes;
// What a step reads: kept values, the states before it, the gradients of the states after it.
RNNC_CONSTEXPR int reads_before(int states) {
  int count = 0;
  for (int s = 0; s < states; ++s) count += kReads[s];
  return count;
}
constexpr int kItemBytes =
    KeptCopy::kBytes + (reads_before(kStates) + kStates) * StateCopy::kBytes;
// Where the values of a state before the step lie among them, and the gradients after it.
RNNC_CONSTEXPR int before_place(int state) {
  return KeptCopy::kBytes + (reads_before(state) + state) * StateCopy::kBytes;
}
RNNC_CONSTEXPR int d_place(int state) {
  return before_place(state) + kReads[state] * StateCopy::kBytes;
}
constexpr int kBackwardStage = kWarpItems * kItemBytes;
constexpr int kBackwardShares = 2 * GradientExchange::kBytes;  // where they begin
constexpr int kBackwardReads = kBackwardShares + 2 * kSharesBuffer;
constexpr int kBackwardBarriers = kBackwardReads + kBackwardAhead * kBackwardStage;
constexpr int kBackwardShared = kBackwardBarriers + 16;
static_assert(kBackwardShared == kPlannedBackwardShared, "the plan counted another size");

// The rows of R transposed that a warp multiplies, as fragments. They come through shared memory, some
// chunks of K at a time: columns of R straight from memory would need an address for every two bytes.
// Rows lane / 4 and lane / 4 + 8 of a tile are neighbouring units, neighbours in a row of R too.
struct BackwardWeights {
  static constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(Element));
  static constexpr int kPitch = round_up(kRowBytes, 16);
  // Chunks of K at a time. Without dense pairs there is nothing to bring, and little memory to spare.
  static constexpr int kStaged =
      kSources == 0 ? 1 : smaller(kBackwardShared / (kChunk * kPitch), kBackwardChunks);
  static_assert(kStaged > 0, "a chunk of R must fit the block's shared memory");

  u32 fragment[kBackwardChunks][2][kTileSlots][4];
  Rounding rounding;

  RNNC_MEMBER void load(char* rows, const Element* R, int64 heads, int64 head, int first_unit,
                        const int (&tile)[kTileSlots], int lane) {
    rounding.begin();
    if constexpr (kSources > 0) {
      unroll<ceil_div(kBackwardChunks, kStaged)>([&](auto index) {
        constexpr int first = decltype(index)::value * kStaged;
        BackwardK::stage<kStaged, kPitch, 32 * kBackwardWarps>(rows, R, heads, head, first_unit,
                                                               first);
#pragma unroll
        for (int chunk = first; chunk < smaller(first + kStaged, kBackwardChunks); ++chunk) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {  // word i / 2 of the quad's four, half i % 2 of the tile
            const int k = (chunk - first) * kChunk + ((lane & 3) * 4 + i / 2) * kPack;
#pragma unroll
            for (int slot = 0; slot < kTileSlots; ++slot) {
              const int in = tile[slot] * kTileUnits + 2 * (lane >> 2) + i % 2;
              const char* at = rows + k * kPitch + in * static_cast<int>(sizeof(Element));
              u32 word = 0;
              if (in < kHeadDim) {
                if constexpr (kPack == 1) {
                  word = as_weight(*reinterpret_cast<const u32*>(at), rounding);
                } else {
                  word = *reinterpret_cast<const u16*>(at) |
                         static_cast<u32>(*reinterpret_cast<const u16*>(at + kPitch)) << 16;
                }
              }
              fragment[chunk][i / 4][slot][i / 2 % 2 * 2 + i % 2] = word;
            }
          }
        }
        __syncthreads();
      });
    }
    rounding.settle();
  }
};

// The sum of what n blocks pushed for an item: halves first, which is short, and always the same.
template <int n>
RNNC_INLINE float sum_shares(const char* shares) {
  if constexpr (n == 1) {
    return *reinterpret_cast<const float*>(shares);
  } else {
    return sum_shares<n / 2>(shares) + sum_shares<n - n / 2>(shares + n / 2 * kShareBytes);
  }
}

// What the pointwise map gives for one item: without the gradients from the peers, and what each of
// them adds for a unit of it.
struct Gradients {
  real gate[at_least_one(kGates)], state[kStates], param[at_least_one(kParams)];
};

}  // namespace rnnc
