// All steps backwards of a head and some batch rows by blocks all over the chip.
//
// The gradients of all gates go through L2, each step's in a slot of the exchange buffer, one tile
// [pair][unit] of K after the other. A cluster owns kBackwardCluster times kBackwardUnits units;
// its blocks share K, so that each takes in a part of a step's gradients only, and send the sums
// for each other's units to their owner's shared memory. Each thread then has an item, a unit of a
// batch row: it adds the sums, computes the gradients of the step before, and publishes them.
// Phases are those of the forward.
#pragma once

namespace rnnc {

constexpr int kBackwardThreads = 32 * kBackwardWarps;
// Else a peer could send what belongs to one phase while this block still reads the last one's.
static_assert(kPhases == 1 || kBackwardCluster == 1, "blocks that share K have one phase");
constexpr int kClusterUnits = kBackwardCluster * kBackwardUnits;
constexpr int kBackwardItems = kGroupRows * kBackwardUnits;
constexpr int kBackwardEach = ceil_div(kBackwardItems, kBackwardThreads);  // items of a thread

struct BackwardShare {
  static constexpr int kWarps = kBackwardWarps, kSharing = kWarps * kBackwardCluster;
  static constexpr int kWritten = kBackwardBlocks * kBackwardUnits;
  RNNC_CONSTEXPR int chunks(int source) { return kSourcePairs[source] * kDimChunks; }
  RNNC_CONSTEXPR int slots(int source) {
    return ceil_div(chunks(source), kSharing);
  }
  RNNC_CONSTEXPR Memory memory(int source, int slot) {
    int all = 0;
    for (int i = 0; i < kSources; ++i) {
      if (i < source) slot += slots(i);
      all += slots(i);
    }
    return memory_of(slot, all, kBackwardRegisterSlots, kBackwardStreamedSlots);
  }
  RNNC_CONSTEXPR int tiles(int) { return ceil_div(kClusterUnits, 16); }
};
using BackwardProduct = SplitProduct<BackwardShare>;

// What the warps found in a phase: [warp][source][unit of the cluster][row], where the padding keeps
// units in different banks; and what came from the blocks of the cluster: [sender][source][four rows]
// [own unit][row], without any, since the network between blocks counts packets more than bytes.
constexpr int kRowPitch = kPhaseRows + 4;
constexpr int kWarpShare = kSources * round_up(kClusterUnits, 16) * kRowPitch;
constexpr int kBlockShare = kSources * kBackwardUnits * kPhaseRows;
constexpr int kShareBytes = 4 * kBackwardWarps * kWarpShare;
constexpr int kInboxBytes = kBackwardCluster > 1 ? 4 * kBackwardCluster * kBlockShare : 0;
constexpr int kBarrierBytes = kBackwardCluster > 1 ? 16 : 0;
constexpr int kBackwardShared =
    2 * kShareBytes + 2 * kInboxBytes + kBarrierBytes + BackwardProduct::kSharedBytes;
static_assert(kBackwardShared == kPlannedBackwardShared, "the plan counted another size");
static_assert(BackwardProduct::kStreamedBytes == kPlannedBackwardStreamed, "and here");

// A unit of a batch row, and what its thread keeps of it.
struct BackwardItem {
  bool given;   // it exists: else the thread computes another's values and stores none
  bool inside;  // the exchange buffer has a place for it
  int phase;        // in which it is computed, of each step
  int64 row, unit;  // of the batch; of [N, D]
  int64 at;    // in [B, N, D], in elements
  int sums;    // its place in what a warp found
  int received;  // its place in what a block sent
  int place;   // in a tile of the exchange buffer, in bytes
  real param[at_least_one(kParams)], diagonal[at_least_one(kDiagonalPairs)];
  real after[kStates], d_state[kStates], sum[at_least_one(kSums)];
  Row<Element, kSaved> kept;
  Row<Element, 1> before[kStates], d_given[kStates];
};

// Adds what the warps found, and sends it to the blocks that own the units.
RNNC_INLINE void send_shares(const float* share, u32 inbox, u32 barrier, int rank) {
  constexpr int quarters = kPhaseRows / 4, count = kSources * kClusterUnits * quarters;
#pragma unroll
  for (int i = 0; i < ceil_div(count, kBackwardThreads); ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * kBackwardThreads;
    if (count % kBackwardThreads != 0 && number >= count) break;
    const int unit = number % kClusterUnits, quarter = number / kClusterUnits % quarters;
    const int source = number / kClusterUnits / quarters;
    const int place = source * (kWarpShare / kSources) + unit * kRowPitch + 4 * quarter;
    float total[4] = {};
#pragma unroll
    for (int w = 0; w < kBackwardWarps; ++w) {
      const float4 own = *reinterpret_cast<const float4*>(share + w * kWarpShare + place);
      total[0] += own.x;
      total[1] += own.y;
      total[2] += own.z;
      total[3] += own.w;
    }
    const int owner = unit / kBackwardUnits, own_unit = unit % kBackwardUnits;
    const int block = (rank * kSources + source) * quarters + quarter;
    const int to = 4 * (block * kBackwardUnits + own_unit);
    const u32 words[4] = {__float_as_uint(total[0]), __float_as_uint(total[1]),
                          __float_as_uint(total[2]), __float_as_uint(total[3])};
    push(peer_address(inbox + 4 * to, owner), words, peer_address(barrier, owner));
  }
}

RNNC_INLINE void grid_backward(const GridArguments<BackwardArguments>& grid) {
  extern __shared__ __align__(128) char shared[];
  const BackwardArguments& a = grid.arguments;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int rank = static_cast<int>(blockIdx.x) % kBackwardCluster;
  const int64 head = blockIdx.z, group = grid.first_group + blockIdx.y;
  const int first_unit = static_cast<int>(blockIdx.x) * kBackwardUnits;
  const int cluster_unit = first_unit - rank * kBackwardUnits;
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;
  const int steps = static_cast<int>(a.steps);
  char* const inbox = shared + 2 * kShareBytes;
  char* const barriers = inbox + 2 * kInboxBytes;

  // a.R is transposed: [kDensePairs, N, D in, D out].
  BackwardProduct product;
  product.load(
      barriers + kBarrierBytes, grid.streamed, a.R, rank * kBackwardWarps + warp, warp, lane,
      [&](int, int tile, int tile_half) {
        const int own = 16 * tile + 8 * tile_half + (lane >> 2), unit = cluster_unit + own;
        return RowPlace{int64{unit} * kHeadDim, own < kClusterUnits && unit < kHeadDim};
      },
      [&](int source, int chunk) {
        const int pair = smaller(chunk / kDimChunks, kSourcePairs[source] - 1);
        const int matrix = kPairMatrix[kSourceFirstPair[source] + pair];
        return (matrix * a.heads + head) * kHeadDim * kHeadDim + chunk % kDimChunks * kChunk;
      });

  // The slot of a step, of all groups of this launch: the tiles of a group are neighbours.
  constexpr int chunks = kDensePairs * kDimChunks, tile_bytes = chunks * kSlotChunkBytes;
  const int64 tiles = static_cast<int64>(gridDim.y) * kRowTiles;
  const int64 slot_bytes = a.heads * tiles * tile_bytes;
  char* slot = grid.exchange + (head * tiles + blockIdx.y * kRowTiles) * tile_bytes;
  slot += (steps - 1) * slot_bytes;

  // Whole warps have items of a phase or none: a shuffle among them needs all lanes.
  BackwardItem item[kBackwardEach];
  const auto each = [&](int phase, const auto& body) {
#pragma unroll
    for (int i = 0; i < kBackwardEach; ++i) {
      if (item[i].phase == phase) body(item[i]);
    }
  };
#pragma unroll
  for (int i = 0; i < kBackwardEach; ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * kBackwardThreads;
    const int row = number / kBackwardUnits % kGroupRows, own = number % kBackwardUnits;
    const int unit = first_unit + own;
    const int64 batch_row = group * kGroupRows + row;
    BackwardItem& it = item[i];
    it.given = unit < kHeadDim && batch_row < a.batch && number < kBackwardItems;
    it.phase = number < kBackwardItems ? row / kPhaseRows : kPhases;
    it.inside = unit < kDimChunks * kChunk && number < kBackwardItems;
    const int64 place = head * kHeadDim + (it.given ? unit : 0);
    it.row = it.given ? batch_row : 0;
    it.unit = place;
    it.at = it.row * plane + place;
    it.sums = own * kRowPitch + row % kPhaseRows;
    it.received = (row % kPhaseRows / 4 * kBackwardUnits + own) * 4 + row % 4;
    it.place = row / kTileRows * tile_bytes + place_of_word(row % kTileRows, unit);
#pragma unroll
    for (int p = 0; p < kParams; ++p) it.param[p] = to_real(a.params[p][place]);
#pragma unroll
    for (int d = 0; d < kDiagonalPairs; ++d) it.diagonal[d] = to_real(a.R_diag[d * plane + place]);
#pragma unroll
    for (int i = 0; i < kSums; ++i) it.sum[i] = 0;
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      const Element* last = a.states[s] + (steps - 1) * step_size;
      it.after[s] = kReads[s] && steps > 0 ? to_real(last[it.at]) : real(0);
      it.d_state[s] = a.d_last[s] ? to_real(a.d_last[s][it.at]) : real(0);
    }
  }

  const u32 barrier = shared_address(barriers);
  constexpr int inbox_bytes = 4 * kBackwardCluster * kSources * kBackwardUnits * kPhaseRows;
  if constexpr (kBackwardCluster > 1) {
    if (threadIdx.x == 0) mbarriers_begin(barrier);
    cluster_sync();
    if (threadIdx.x == 0) mbarriers_expect(barrier, inbox_bytes);
  }

  const auto fetch = [&](int phase, int t) {
    if (t < 0) return;
    each(phase, [&](BackwardItem& it) {
      const int64 here = t * step_size + it.at;
      it.kept.load(a.kept + here * kSaved);
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (kReads[s]) {
          it.before[s].load(t > 0 ? a.states[s] + (here - step_size) : a.initial[s] + it.at);
        }
        if (a.d_states[s]) {
          it.d_given[s].load(a.d_states[s] + t * a.d_states_time[s] + it.row * a.d_states_row[s] +
                             it.unit);
        }
      }
    });
  };
#pragma unroll
  for (int phase = 0; phase < kPhases; ++phase) fetch(phase, steps - 1);

#pragma unroll 1
  for (int t = steps - 1; t >= -1; --t) {
#pragma unroll 1
    for (int phase = 0; phase < kPhases; ++phase) {
      if (t < steps - 1) {
        // Products so far. Two buffers in turn: who writes one again has passed the barrier after
        // it was read.
        const int products = (steps - 2 - t) * kPhases + phase, turn = products & 1;
        float* const share = reinterpret_cast<float*>(shared + turn * kShareBytes);
        // NOTE: the numbers that are in registers anyway where those are short: R fills them.
        const Wait wait = kPack == 1 ? Wait{a.watchdog, products, 0} : Wait{a.watchdog, t, steps - 2};
        BackwardProduct::Accumulators sum[BackwardProduct::kTiles][kPhaseTiles];
#pragma unroll
        for (int tile = 0; tile < BackwardProduct::kTiles; ++tile) {
#pragma unroll
          for (int n = 0; n < kPhaseTiles; ++n) sum[tile][n].clear();
        }
        product.multiply(
            sum, slot + slot_bytes + lane * kLaneBytes + phase * kPhaseTiles * tile_bytes,
            rank * kBackwardWarps + warp,
            [&](int source) { return kSourceFirstPair[source] * kDimChunks * kSlotChunkBytes; },
            tile_bytes, wait);
        unroll<BackwardProduct::kTiles * kPhaseTiles * 2>([&](auto index) {
          constexpr int number = decltype(index)::value, half = number % 2;
          constexpr int n = number / 2 % kPhaseTiles, tile = number / 2 / kPhaseTiles;
          constexpr int unit = tile * 16 + half * 8;  // of [source][unit of the cluster]
          static_assert(BackwardProduct::kTiles == kSources * BackwardShare::tiles(0));
          float* to = share + warp * kWarpShare + (unit + (lane >> 2)) * kRowPitch + n * kTileRows;
          *reinterpret_cast<float2*>(to + 2 * quad) =
              make_float2(sum[tile][n].total(2 * half), sum[tile][n].total(2 * half + 1));
        });
        __syncthreads();
        if constexpr (kBackwardCluster > 1) {
          send_shares(share, shared_address(inbox + turn * kInboxBytes), barrier + 8 * turn, rank);
          // Re-armed before anybody can send for the next use of this buffer: who does has read
          // what this block publishes after its next barrier.
          mbarrier_await(barrier + 8 * turn, products >> 1 & 1, wait);
          if (threadIdx.x == 0) mbarrier_expect(barrier + 8 * turn, inbox_bytes);
        }
        each(phase, [&](BackwardItem& it) {
          constexpr int senders = kBackwardCluster > 1 ? kBackwardCluster : kBackwardWarps;
          constexpr int apart = kBackwardCluster > 1 ? kBlockShare : kWarpShare;
          constexpr int source_apart = apart / kSources;
          const float* from = kBackwardCluster > 1
                                  ? reinterpret_cast<const float*>(inbox + turn * kInboxBytes)
                                  : share;
#pragma unroll
          for (int source = 0; source < kSources; ++source) {
            const int own = kBackwardCluster > 1 ? it.received : it.sums;
            float total = 0;
#pragma unroll
            for (int i = 0; i < senders; ++i) total += from[i * apart + source * source_apart + own];
            it.d_state[kSourceState[source]] += total;
          }
        });
      }
      if (t < 0) continue;

      each(phase, [&](BackwardItem& it) {
        real kept[at_least_one(kSaved)], before[kStates], d_gate[at_least_one(kGates)];
        real d_param[at_least_one(kParams)];
#pragma unroll
        for (int i = 0; i < kSaved; ++i) kept[i] = it.kept[i];
#pragma unroll
        for (int s = 0; s < kStates; ++s) {
          before[s] = kReads[s] ? it.before[s][0] : real(0);
          if (a.d_states[s]) it.d_state[s] += it.d_given[s][0];
        }
        step_backward(kept, before, it.after, it.param, it.d_state, d_gate, d_param);
        real values[kDensePairs];
#pragma unroll
        for (int pair = 0; pair < kDensePairs; ++pair) {
          values[pair] = it.given ? d_gate[kPairGate[pair]] : real(0);
        }
        publish_values(values, lane & 1, it.inside, [&](int pair) {
          return slot + it.place + pair * kDimChunks * kSlotChunkBytes;
        });
#pragma unroll
        for (int n = 0; n < kDiagonalPairs; ++n) {
          const int d = kDiagonalOrder[n];
          it.d_state[kDiagonalSource[d]] += it.diagonal[d] * d_gate[kDiagonalGate[d]];
        }
        real wx[at_least_one(kInputGates)], rest[at_least_one(kGates - kInputGates)];
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          (g < kInputGates ? wx[g] : rest[g - kInputGates]) = d_gate[g];
        }
        Row<Element, kInputGates> wx_row;
        wx_row.set(wx);
        Row<Element, kGates - kInputGates> rest_row;
        rest_row.set(rest);
        // Absent rows and units count for nothing, whatever the equations make of zeros.
        if (it.given) {
          const int64 here = t * step_size + it.at;
          wx_row.store(a.d_wx + here * kInputGates);
          rest_row.store(a.d_rest + here * (kGates - kInputGates));
#pragma unroll
          for (int i = 0; i < kBiasGates; ++i) it.sum[i] += d_gate[kBias[i]];
#pragma unroll
          for (int i = 0; i < kParams; ++i) it.sum[kBiasGates + i] += d_param[i];
#pragma unroll
          for (int i = 0; i < kDiagonalPairs; ++i) {
            const real source = before[kDiagonalSource[i]];
            it.sum[kBiasGates + kParams + i] += d_gate[kDiagonalGate[i]] * source;
          }
          if (kSumsInParts ? t % kPartSteps == 0 : t == 0) {
#pragma unroll
            for (int i = 0; i < kSums; ++i) {
              leave_sum(a.sums + (it.row * kSums + i) * plane + it.unit, it.sum[i], t, a.steps);
              it.sum[i] = 0;
            }
          }
        }
#pragma unroll
        for (int s = 0; s < kStates; ++s) it.after[s] = before[s];
      });
      fetch(phase, t - 1);
    }
    slot -= slot_bytes;
  }

  product.finish();

  const auto each_of_all = [&](const auto& body) {
#pragma unroll
    for (int phase = 0; phase < kPhases; ++phase) each(phase, body);
  };
  each_of_all([&](BackwardItem& it) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (it.given) a.d_initial[s][it.at] = to_element<Element>(it.d_state[s]);
    }
  });
  if constexpr (kBackwardCluster > 1) {  // nobody leaves while a peer may still send to it
    cluster_sync();
  }
}

}  // namespace rnnc
