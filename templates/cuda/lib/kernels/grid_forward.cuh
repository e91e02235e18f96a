// All steps of a head and some batch rows by blocks all over the chip: R in registers and shared
// memory, or else streamed; h through L2.
//
// A block owns kForwardUnits units. Its warps share K; rows of R are interleaved by gates, so that
// a thread's accumulators hold its share of all gates of a unit. After one barrier a step each
// thread adds the shares of one item, a unit of a batch row, whose states stay in its registers.
// Items of a warp are neighbouring units: what they read and write in memory is side by side.
//
// Several tiles of batch rows may be taken in phases, one after the other: while what one published
// is on its way to the others, the next is multiplied.
#pragma once

namespace rnnc {

constexpr int kForwardThreads = 32 * kForwardWarps;
constexpr int kForwardItems = kGroupRows * kForwardUnits;
constexpr int kForwardEach = ceil_div(kForwardItems, kForwardThreads);  // items of a thread

struct ForwardShare {
  static constexpr int kWarps = kForwardWarps, kSharing = kWarps;
  static constexpr int kWritten = kForwardBlocks * kForwardUnits;
  RNNC_CONSTEXPR int chunks(int) { return kDimChunks; }
  RNNC_CONSTEXPR int slots(int) { return ceil_div(kDimChunks, kWarps); }
  RNNC_CONSTEXPR Memory memory(int source, int slot) {
    return memory_of(slot, slots(source), kForwardRegisterSlots, kForwardStreamedSlots);
  }
  // Halves of tiles (group of 8 units, pair) of a source; an odd one is filled with zeros.
  RNNC_CONSTEXPR int halves(int source) { return kForwardUnits / 8 * kSourcePairs[source]; }
  RNNC_CONSTEXPR int tiles(int source) { return ceil_div(halves(source), 2); }
};
using ForwardProduct = SplitProduct<ForwardShare>;

// What the warps found in a phase: [warp][row][unit][pair]. The padding keeps rows in different banks.
constexpr int kSumWidth = kDensePairs <= 2 ? kDensePairs : round_up(kDensePairs, 4);
constexpr int kSumPitch = (kForwardUnits + 1) * kSumWidth;
constexpr int kWarpSums = kPhaseRows * kSumPitch;
constexpr int kForwardSumBytes = kForwardWarps * kWarpSums * 4;
constexpr int kForwardShared = 2 * kForwardSumBytes + ForwardProduct::kSharedBytes;
static_assert(kForwardShared == kPlannedForwardShared, "the plan counted another size");
static_assert(ForwardProduct::kStreamedBytes == kPlannedForwardStreamed, "and here");

RNNC_INLINE void store_sums(float* to, const float (&sums)[kSumWidth]) {
  if constexpr (kSumWidth % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kSumWidth; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
    }
  } else if constexpr (kSumWidth == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(sums[0], sums[1]);
  } else {
    *to = sums[0];
  }
}
RNNC_INLINE void add_sums(float (&sums)[kSumWidth], const float* from) {
  if constexpr (kSumWidth % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kSumWidth; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      sums[i] += four.x;
      sums[i + 1] += four.y;
      sums[i + 2] += four.z;
      sums[i + 3] += four.w;
    }
  } else if constexpr (kSumWidth == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    sums[0] += two.x;
    sums[1] += two.y;
  } else {
    sums[0] += *from;
  }
}

// A unit of a batch row, and what its thread keeps of it.
struct ForwardItem {
  bool given;      // it exists: else the thread computes another's values and stores none
  bool inside;     // the exchange buffer has a place for it
  int phase;       // in which it is computed, of each step
  int64 at;        // in [B, N, D], in elements
  int64 input_at;  // in a step of wx
  int sums;        // in a warp's share
  int place;       // in a tile of the exchange buffer, in bytes
  real bias[at_least_one(kGates)], param[at_least_one(kParams)];
  real diagonal[at_least_one(kDiagonalPairs)];
  real state[kStates], kept[at_least_one(kSaved)];
  Row<Element, kInputGates> input;
};

RNNC_INLINE void grid_forward(const GridArguments<ForwardArguments>& grid) {
  extern __shared__ __align__(128) char shared[];
  const ForwardArguments& a = grid.arguments;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int64 head = blockIdx.z, group = grid.first_group + blockIdx.y;
  const int first_unit = static_cast<int>(blockIdx.x) * kForwardUnits;
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;
  const int steps = static_cast<int>(a.steps);

  ForwardProduct product;
  product.load(
      shared + 2 * kForwardSumBytes, grid.streamed, a.R, warp, warp, lane,
      [&](int source, int tile, int tile_half) {
        const int half = 2 * tile + tile_half, pairs = kSourcePairs[source];
        const int unit = first_unit + half / pairs * 8 + (lane >> 2);
        const bool given = half < ForwardShare::halves(source);
        const int matrix = given ? kPairMatrix[kSourceFirstPair[source] + half % pairs] : 0;
        return RowPlace{((matrix * a.heads + head) * kHeadDim + unit) * kHeadDim,
                        given && unit < kHeadDim};
      },
      [&](int, int chunk) { return int64{chunk} * kChunk; });

  // The slot of a step, of all groups of this launch: the tiles of a group are neighbours.
  constexpr int chunks = kSources * kDimChunks, tile_bytes = chunks * kSlotChunkBytes;
  const int64 tiles = static_cast<int64>(gridDim.y) * kRowTiles;
  const int64 slot_bytes = a.heads * tiles * tile_bytes;
  char* slot = grid.exchange + (head * tiles + blockIdx.y * kRowTiles) * tile_bytes;

  // Whole warps have items of a phase or none: a shuffle among them needs all lanes.
  ForwardItem item[kForwardEach];
  const auto each = [&](int phase, const auto& body) {
#pragma unroll
    for (int i = 0; i < kForwardEach; ++i) {
      if (item[i].phase == phase) body(item[i]);
    }
  };
#pragma unroll
  for (int i = 0; i < kForwardEach; ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * kForwardThreads;
    const int row = number / kForwardUnits % kGroupRows, own = number % kForwardUnits;
    const int unit = first_unit + own;
    const int64 batch_row = group * kGroupRows + row;
    ForwardItem& it = item[i];
    it.given = unit < kHeadDim && batch_row < a.batch && number < kForwardItems;
    const int64 real_row = it.given ? batch_row : 0;
    const int64 place = head * kHeadDim + (it.given ? unit : 0);
    it.at = real_row * plane + place;
    it.phase = number < kForwardItems ? row / kPhaseRows : kPhases;
    it.inside = unit < kDimChunks * kChunk && number < kForwardItems;
    it.input_at = real_row * a.wx_row + place * kInputGates;
    it.sums = row % kPhaseRows * kSumPitch + own * kSumWidth;
    it.place = row / kTileRows * tile_bytes + place_of_word(row % kTileRows, unit);
#pragma unroll
    for (int g = 0; g < kGates; ++g) it.bias[g] = 0;
#pragma unroll
    for (int b = 0; b < kBiasGates; ++b) {
      if (a.bias) it.bias[kBias[b]] = to_real(a.bias[b * plane + place]);
    }
#pragma unroll
    for (int p = 0; p < kParams; ++p) it.param[p] = to_real(a.params[p][place]);
#pragma unroll
    for (int d = 0; d < kDiagonalPairs; ++d) it.diagonal[d] = to_real(a.R_diag[d * plane + place]);
#pragma unroll
    for (int s = 0; s < kStates; ++s) it.state[s] = to_real(a.initial[s][it.at]);
  }

  // What is absent counts as zero for the others, and has to be there for them too.
  const auto publish = [&](int phase, char* to) {
    each(phase, [&](ForwardItem& it) {
      real values[kSources];
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
        values[source] = it.given ? it.state[kSourceState[source]] : real(0);
      }
      publish_values(values, lane & 1, it.inside, [&](int source) {
        return to + it.place + source * kDimChunks * kSlotChunkBytes;
      });
    });
  };
  const auto fetch = [&](int phase, int t) {
    if (t < steps) {
      each(phase, [&](ForwardItem& it) { it.input.load(a.wx + t * a.wx_time + it.input_at); });
    }
  };
#pragma unroll
  for (int phase = 0; phase < kPhases; ++phase) {
    publish(phase, slot);
    fetch(phase, 0);
  }

  int64 now = 0;  // offset into [T, B, N, D] of this step
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
#pragma unroll 1
    for (int phase = 0; phase < kPhases; ++phase) {
      ForwardProduct::Accumulators sum[ForwardProduct::kTiles][kPhaseTiles];
#pragma unroll
      for (int tile = 0; tile < ForwardProduct::kTiles; ++tile) {
#pragma unroll
        for (int n = 0; n < kPhaseTiles; ++n) sum[tile][n].clear();
      }
      product.multiply(
          sum, slot + lane * kLaneBytes + phase * kPhaseTiles * tile_bytes, warp,
          [&](int source) { return source * kDimChunks * kSlotChunkBytes; }, tile_bytes,
          Wait{a.watchdog, t, 0});

      // Two buffers in turn: who writes one again has passed the barrier after it was read.
      const int turn = (t * kPhases + phase) & 1;
      float* const sums = reinterpret_cast<float*>(shared + turn * kForwardSumBytes);
      unroll<kForwardUnits / 8 * kPhaseTiles * 2>([&](auto index) {
        constexpr int number = decltype(index)::value, j = number % 2;
        constexpr int n = number / 2 % kPhaseTiles, unit_group = number / 2 / kPhaseTiles;
        float values[kSumWidth] = {};
        unroll<kSources>([&](auto source_index) {
          constexpr int source = decltype(source_index)::value;
          unroll<kSourcePairs[source]>([&](auto pair_index) {
            constexpr int pair = decltype(pair_index)::value;
            constexpr int half = unit_group * kSourcePairs[source] + pair;
            constexpr int tile = ForwardProduct::first_tile(source) + half / 2;
            values[kSourceFirstPair[source] + pair] = sum[tile][n].total(half % 2 * 2 + j);
          });
        });
        const int row = n * kTileRows + 2 * quad + j, unit = unit_group * 8 + (lane >> 2);
        store_sums(sums + warp * kWarpSums + row * kSumPitch + unit * kSumWidth, values);
      });
      __syncthreads();

      each(phase, [&](ForwardItem& it) {
        real gate[at_least_one(kGates)];
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          gate[g] = it.bias[g];
          if (g < kInputGates) gate[g] += it.input[g];
        }
#pragma unroll
        for (int n = 0; n < kDiagonalPairs; ++n) {
          const int d = kDiagonalOrder[n];
          gate[kDiagonalGate[d]] += it.diagonal[d] * it.state[kDiagonalSource[d]];
        }
        float total[kSumWidth] = {};
#pragma unroll
        for (int w = 0; w < kForwardWarps; ++w) add_sums(total, sums + w * kWarpSums + it.sums);
#pragma unroll
        for (int pair = 0; pair < kDensePairs; ++pair) gate[kPairGate[pair]] += total[pair];
        real next[kStates];
        with_sigmoid<false>([&](auto& sigmoid) {
          step_forward(gate, it.state, it.param, next, it.kept, sigmoid);
        });
        assign(it.state, next);
      });
      if (t + 1 < steps) publish(phase, slot + slot_bytes);
      fetch(phase, t + 1);
      each(phase, [&](ForwardItem& it) {
        if (it.given) {
#pragma unroll
          for (int s = 0; s < kStates; ++s) {
            if (a.states[s]) a.states[s][now + it.at] = to_element<Element>(it.state[s]);
          }
          if (kSaved && a.kept) {
            Row<Element, kSaved> row;
            row.set(it.kept);
            row.store(a.kept + (now + it.at) * kSaved);
          }
        }
      });
    }
    slot += slot_bytes;
    now += step_size;
  }
  product.finish();
#pragma unroll
  for (int phase = 0; phase < kPhases; ++phase) {
    each(phase, [&](ForwardItem& it) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (it.given) a.last[s][it.at] = to_element<Element>(it.state[s]);
      }
    });
  }
}

}  // namespace rnnc
