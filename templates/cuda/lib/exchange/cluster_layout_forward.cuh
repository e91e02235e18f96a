// What the forward of a cluster keeps where: R in registers, h of all units in shared memory, and how a
// warp's h gets there. See cluster_forward.cuh.
#pragma once

namespace rnnc {

// The exchange buffer that peers push to: chunks of K, of all rows. What a warp pushes to a peer lies
// side by side, the pieces of 16 bytes of all rows that hold the same units: the network between blocks
// counts packets more than bytes. Even rows lie before odd ones, since a warp that shares its units with
// another has one or the other; and the place of a pair of rows is permuted by the piece's number, so
// that the loads of fragments do not meet in a bank.
template <int chunks>
struct PushedExchange {
  static constexpr int kChunkBytes = kColumns * kChunk * static_cast<int>(sizeof(Element));
  static constexpr int kBytes = chunks * kChunkBytes;

  // Where element k of a row lies, in bytes.
  static RNNC_MEMBER int offset(int row, int k) {
    const int byte = k * static_cast<int>(sizeof(Element)), piece = byte >> 4;
    const int place = (row & 1) << 2 | ((row >> 1) ^ (piece & 3));
    return (piece << 3 | place) << 4 | (byte & 15);
  }
  // The four words of chunk 0 that a lane multiplies: those of row lane / 4 and quad lane % 4.
  static RNNC_MEMBER int first_fragment(int lane) {
    return offset(lane >> 2, (lane & 3) * 4 * kPack);
  }
};

constexpr int kGroupUnits = 8;
constexpr int kForwardGroups = kForwardUnits / kGroupUnits;
constexpr int kForwardWarps = kForwardGroups * kForwardSplits;
constexpr int kForwardItems = kForwardSplits == 1 ? 2 : 1;  // columns of a thread
constexpr int kItemWarps = kForwardGroups * smaller(kForwardSplits, 2);
constexpr int kDimChunks = ceil_div(kHeadDim, kChunk);
constexpr int kSplitChunks = ceil_div(kDimChunks, kForwardSplits);  // of a warp
RNNC_CONSTEXPR int larger(int a, int b) { return a > b ? a : b; }
using StateExchange = PushedExchange<larger(ceil_div(kForwardCluster * kForwardUnits, kChunk),
                                            kForwardSplits * kSplitChunks)>;
constexpr int kForwardBuffer = kSources * StateExchange::kBytes;
// What the cluster pushes into a buffer in a step.
constexpr int kForwardPushed =
    kSources * kForwardCluster * kForwardUnits * kColumns * static_cast<int>(sizeof(Element));
using InputCopy = WarpCopy<kInputGates, kGroupUnits, 4 * kForwardItems>;

RNNC_CONSTEXPR int forward_tiles(int source) { return ceil_div(kSourcePairs[source], 2); }
RNNC_CONSTEXPR int forward_first_tile(int source) {
  int tiles = 0;
  for (int i = 0; i < source; ++i) tiles += forward_tiles(i);
  return tiles;
}
constexpr int kForwardTiles = at_least_one(forward_first_tile(kSources));
// Independent sums hide the latency of an instruction; where R takes much, there are fewer.
constexpr int kForwardChains =
    kPack == 2 && (kForwardTiles == 1 || kSplitChunks * kForwardTiles <= 8) ? 4 : 2;
// Sums of a warp for another that shares its units: two halves of a tile, a lane. One buffer is enough:
// who leaves a sum at a step has waited for what its reader pushed after reading the last step's.
constexpr int kPartBytes = kForwardTiles * 32 * static_cast<int>(sizeof(float2));
constexpr int kPartsBuffer =
    kForwardSplits == 1 ? 0 : kForwardGroups * 2 * (kForwardSplits - 1) * kPartBytes;
constexpr int kForwardInputs = 2 * kForwardBuffer + kPartsBuffer;  // where they begin
constexpr int kForwardStage = kItemWarps * InputCopy::kBytes;
constexpr int kForwardBarriers = kForwardInputs + kForwardAhead * kForwardStage;
constexpr int kForwardShared = kForwardBarriers + 16;
static_assert(kForwardShared == kPlannedForwardShared, "the plan counted another size");

// The part of R that a warp multiplies, as fragments.
struct ForwardWeights {
  u32 fragment[kSplitChunks][2][kForwardTiles][4];
  Rounding rounding;

  // The four words of a chunk that a lane multiplies, from element k of a row of R on; zero where they
  // are not given, or beyond the end. NOTE: no .nc, so that a barrier holds the loads behind it.
  RNNC_MEMBER void load_words_of(u32 (&words)[4], const Element* row, int k, bool given) {
    if constexpr (kHeadDim * sizeof(Element) % 16 == 0) {
      const bool inside = given && k < kHeadDim;
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "l"(row + (inside ? k : 0))
                   : "memory");
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = as_weight(inside ? words[i] : 0u, rounding);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = 0u;
#pragma unroll
        for (int e = 0; e < kPack; ++e) {
          const int own = k + i * kPack + e;
          const bool inside = given && own < kHeadDim;
          const Element* at = row + (inside ? own : 0);
          if constexpr (kPack == 1) {
            u32 word;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
            words[i] = as_weight(inside ? word : 0u, rounding);
          } else {
            u16 half;
            asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(at) : "memory");
            words[i] |= inside ? static_cast<u32>(half) << 16 * e : 0u;
          }
        }
      }
    }
  }

  RNNC_MEMBER void load(const Element* R, int64 heads, int64 head, int unit, int first_chunk,
                        int lane) {
    const bool exists = unit < kHeadDim;
    rounding.begin();
    const int first = first_chunk * kChunk + (lane & 3) * 4 * kPack;
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      unroll<2 * forward_tiles(source)>([&](auto half_index) {
        constexpr int half = decltype(half_index)::value;
        constexpr int tile = forward_first_tile(source) + half / 2;
        constexpr bool paired = half < kSourcePairs[source];
        const int matrix = kPairMatrix[kSourceFirstPair[source] + (paired ? half : 0)];
        const Element* row =
            R + ((matrix * heads + head) * kHeadDim + (exists ? unit : 0)) * kHeadDim;
#pragma unroll
        for (int chunk = 0; chunk < kSplitChunks; ++chunk) {
          u32 words[4] = {0u, 0u, 0u, 0u};
          if constexpr (paired) load_words_of(words, row, first + chunk * kChunk, exists);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            fragment[chunk][i / 2][tile][i % 2 * 2 + half % 2] = words[i];
          }
          __syncthreads();  // for the compiler, which moves no load across it
        }
      });
    });
    rounding.settle();
  }
};

// h of a warp's units in pieces of 16 bytes, each a row of the exchange buffer's, on its way to the
// peers. The lanes that hold the same piece share the peers.
struct StatePieces {
  static constexpr int kShares = (kPack == 2 ? 4 : 2) * (kForwardItems == 1 ? 2 : 1);
  static constexpr int kPeers = ceil_div(kForwardCluster, kShares);

  // Where the next pieces go, and what counts them: addresses at the peers. NOTE: they are ready ahead of
  // the pieces, which wait for nothing else.
  u32 to[kPeers], barrier[kPeers];
  bool given[kPeers];
  int buffer_distance = kForwardBuffer, barrier_distance = 8;  // to the other buffer's

  // The first pieces go to buffer 0.
  RNNC_MEMBER void prepare(u32 shared, u32 rank, int first_unit, int split, int lane) {
    const int quad = lane & 3, line = lane >> 2;
    int row, first = first_unit, share;
    if constexpr (kPack == 2) {
      row = kForwardItems == 2 ? line : (line & ~1) | split;
      share = kForwardItems == 2 ? quad : quad + 4 * (line & 1);
    } else {
      row = 2 * quad + (kForwardItems == 2 ? line & 1 : split);
      first += (kForwardItems == 2 ? line >> 1 & 1 : line & 1) * 4;
      share = kForwardItems == 2 ? line >> 2 : line >> 1;
    }
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      const int distance = share + i * kShares;
      given[i] = distance < kForwardCluster;
      const u32 peer = peer_address(shared, (rank + distance) % kForwardCluster);
      to[i] = peer + StateExchange::offset(row, first);
      barrier[i] = peer + kForwardBarriers;
    }
  }

  // The piece of this lane out of the values of all lanes: value[i] is column 2q + i, or 2q + split,
  // of unit lane / 4.
  template <typename T>
  static RNNC_MEMBER void collect(T, u32 (&words)[4], const real (&value)[kForwardItems], int lane) {
    const int quad = lane & 3, line = lane >> 2;
    if constexpr (sizeof(T) == 2) {
      const u32 columns = pack(T{}, value[0], value[kForwardItems - 1]);
      u32 units;  // 2q and 2q + 1, of column lane / 4
      asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(units) : "r"(columns));
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(~0u, units, i, 4);
    } else if constexpr (kForwardItems == 2) {
      // Who takes an odd column begins with the second unit, so that a lane gives one column at once.
      const int odd = line & 1, first = line >> 1 & 1;
      u32 found[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u32 own = __float_as_uint((line ^ i) & 1 ? value[1] : value[0]);
        found[i] = __shfl_sync(~0u, own, (first * 4 + (i ^ odd)) * 4 + quad);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = odd ? found[i ^ 1] : found[i];
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = __shfl_sync(~0u, __float_as_uint(value[0]), ((line & 1) * 4 + i) * 4 + quad);
      }
    }
  }

  RNNC_MEMBER void send(const u32 (&words)[4], int source) const {
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      if (given[i]) push(to[i] + source * StateExchange::kBytes, words, barrier[i]);
    }
  }
  // The buffers take turns.
  RNNC_MEMBER void turn() {
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      to[i] += buffer_distance;
      barrier[i] += barrier_distance;
    }
    buffer_distance = -buffer_distance;
    barrier_distance = -barrier_distance;
  }
};

}  // namespace rnnc
