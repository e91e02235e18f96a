// Backward kernel of a grid plan: blocks on the whole GPU run all steps of a head and some batch
// rows.
//
// The gradients of all gates are exchanged through L2, each step's in a region of the exchange
// buffer, one tile [pair][unit] of K after the other. A cluster owns kCluster times kUnits units.
// Its blocks share K, so that each gathers only a part of a step's gradients, and send the partials
// of each other's units to the owner's shared memory. Each thread then has items: it adds the
// partials, computes the gradients of the step before, and publishes them. Phases are those of the
// forward.
#pragma once

#include "lib/kernels/grid_layout_backward.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::grid_backward {

RNNC_INLINE void run(const GridArguments<BackwardArguments>& grid) {
  const BackwardArguments& a = grid.arguments;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int rank = static_cast<int>(blockIdx.x) % kCluster;
  const int64 head = blockIdx.z, group = grid.first_group + blockIdx.y;
  const int first_unit = static_cast<int>(blockIdx.x) * kUnits;
  const int cluster_unit = first_unit - rank * kUnits;
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;
  const int steps = static_cast<int>(a.steps);
  char* const inbox = shared + 2 * kPartialBytes;
  char* const barriers = inbox + 2 * kInboxBytes;

  // a.R is transposed: [kDensePairs, N, D in, D out].
  Product product;
  product.load(
      barriers + kBarrierBytes, grid.streamed, a.R, rank * kWarps + warp, warp, lane,
      [&](int, int tile, int tile_half) {
        const int own = 16 * tile + 8 * tile_half + (lane >> 2), unit = cluster_unit + own;
        return RowRef{int64{unit} * kHeadDim, own < kClusterUnits && unit < kHeadDim};
      },
      [&](int source, int k_tile) {
        const int pair = minimum(k_tile / kDimKTiles, kSourcePairs[source] - 1);
        const int matrix = kPairMatrix[kSourceFirstPair[source] + pair];
        return (matrix * a.heads + head) * kHeadDim * kHeadDim + k_tile % kDimKTiles * kKTile;
      });

  // A step's region of the exchange buffer has all groups of this launch; the tiles of a group are
  // contiguous.
  constexpr int k_tiles = kDensePairs * kDimKTiles, tile_bytes = k_tiles * kTileKTileBytes;
  const int64 tiles = static_cast<int64>(gridDim.y) * kRowTiles;
  const int64 region_bytes = a.heads * tiles * tile_bytes;
  char* step_region = grid.exchange + (head * tiles + blockIdx.y * kRowTiles) * tile_bytes;
  step_region += (steps - 1) * region_bytes;

  // All lanes of a warp have items of a phase, or none has: publishing shuffles among all lanes.
  Item item[kThreadItems];
  const auto each = [&](int phase, const auto& body) {
#pragma unroll
    for (int i = 0; i < kThreadItems; ++i) {
      if (item[i].phase == phase) body(item[i]);
    }
  };
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = number / kUnits % kGroupRows, unit_idx = number % kUnits;
    const int unit = first_unit + unit_idx;
    const int64 batch_row = group * kGroupRows + row;
    Item& it = item[i];
    it.valid = unit < kHeadDim && batch_row < a.batch && number < kItems;
    it.phase = number < kItems ? row / kPhaseRows : kPhases;
    it.in_bounds = unit < kDimKTiles * kKTile && number < kItems;
    it.unit = head * kHeadDim + (it.valid ? unit : 0);
    it.row = it.valid ? batch_row : 0;
    it.offset = it.row * plane + it.unit;
    it.partial_offset = unit_idx * kRowPitch + row % kPhaseRows;
    it.received_offset = (row % kPhaseRows / 4 * kUnits + unit_idx) * 4 + row % 4;
    it.exchange_offset = row / kTileRows * tile_bytes + word_offset(row % kTileRows, unit);
    load_unit_weights(it.param, it.diagonal, a, plane, it.unit);
#pragma unroll
    for (int i = 0; i < kSums; ++i) it.sum[i] = 0;
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      const Element* last = a.states[s] + (steps - 1) * step_size;
      it.after[s] = kReads[s] && steps > 0 ? to_real(last[it.offset]) : real(0);
      it.d_state[s] = a.d_last[s] ? to_real(a.d_last[s][it.offset]) : real(0);
    }
  }

  const u32 barrier = shared_address(barriers);
  constexpr int inbox_bytes = 4 * kCluster * kSources * kUnits * kPhaseRows;
  if constexpr (kCluster > 1) {
    if (threadIdx.x == 0) mbarrier_pair_init(barrier);
    cluster_sync();
    if (threadIdx.x == 0) mbarrier_pair_expect_tx(barrier, inbox_bytes);
  }

  const auto prefetch = [&](int phase, int t) {
    if (t < 0) return;
    each(phase, [&](Item& it) {
      const int64 t_offset = t * step_size + it.offset;
      it.saved.load(a.saved + t_offset * kSaved);
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (kReads[s]) {
          it.before[s].load(t > 0 ? a.states[s] + (t_offset - step_size)
                                  : a.initial_states[s] + it.offset);
        }
        if (a.d_states[s]) {
          it.d_output[s].load(a.d_states[s] + t * a.d_states_time[s] + it.row * a.d_states_row[s] +
                              it.unit);
        }
      }
    });
  };
#pragma unroll
  for (int phase = 0; phase < kPhases; ++phase) prefetch(phase, steps - 1);

#pragma unroll 1
  for (int t = steps - 1; t >= -1; --t) {
#pragma unroll 1
    for (int phase = 0; phase < kPhases; ++phase) {
      if (t < steps - 1) {
        // Products so far. Two buffers: a warp that writes one again has passed the barrier that
        // follows its reads.
        const int products = (steps - 2 - t) * kPhases + phase, buffer_idx = products & 1;
        float* const partials = reinterpret_cast<float*>(shared + buffer_idx * kPartialBytes);
        // NOTE: in float32, where R fills the registers, the wait uses values that are in registers
        // anyway.
        const Wait wait =
            kPack == 1 ? Wait{a.watchdog, products, 0} : Wait{a.watchdog, t, steps - 2};
        Product::Accumulators sum[Product::kTiles][kPhaseTiles];
#pragma unroll
        for (int tile = 0; tile < Product::kTiles; ++tile) {
#pragma unroll
          for (int n = 0; n < kPhaseTiles; ++n) sum[tile][n].clear();
        }
        product.multiply(
            sum, step_region + region_bytes + lane * kLaneBytes + phase * kPhaseTiles * tile_bytes,
            rank * kWarps + warp,
            [&](int source) { return kSourceFirstPair[source] * kDimKTiles * kTileKTileBytes; },
            tile_bytes, wait);
        unroll<Product::kTiles * kPhaseTiles * 2>([&](auto index) {
          constexpr int number = decltype(index)::value, half = number % 2;
          constexpr int n = number / 2 % kPhaseTiles, tile = number / 2 / kPhaseTiles;
          constexpr int unit = tile * 16 + half * 8;  // of [source][unit of the cluster]
          static_assert(Product::kTiles == kSources * KRange::tiles(0));
          float* to =
              partials + warp * kWarpPartials + (unit + (lane >> 2)) * kRowPitch + n * kTileRows;
          *reinterpret_cast<float2*>(to + 2 * quad) =
              make_float2(sum[tile][n].total(2 * half), sum[tile][n].total(2 * half + 1));
        });
        __syncthreads();
        if constexpr (kCluster > 1) {
          send_partials(partials, shared_address(inbox + buffer_idx * kInboxBytes),
                        barrier + 8 * buffer_idx, rank);
          // Expects the next use of this buffer before any peer can send for it: a peer that sends
          // has read what this block publishes after its next barrier.
          mbarrier_wait(barrier + 8 * buffer_idx, products >> 1 & 1, wait);
          if (threadIdx.x == 0) mbarrier_arrive_expect_tx(barrier + 8 * buffer_idx, inbox_bytes);
        }
        each(phase, [&](Item& it) {
          constexpr int senders = kCluster > 1 ? kCluster : kWarps;
          constexpr int stride = kCluster > 1 ? kBlockPartials : kWarpPartials;
          constexpr int source_stride = stride / kSources;
          const float* from = kCluster > 1
                                  ? reinterpret_cast<const float*>(inbox + buffer_idx * kInboxBytes)
                                  : partials;
#pragma unroll
          for (int source = 0; source < kSources; ++source) {
            const int offset = kCluster > 1 ? it.received_offset : it.partial_offset;
            float total = 0;
#pragma unroll
            for (int i = 0; i < senders; ++i)
              total += from[i * stride + source * source_stride + offset];
            it.d_state[kSourceState[source]] += total;
          }
        });
      }
      if (t < 0) continue;

      each(phase, [&](Item& it) {
        Saved saved;
        States before;
        Gates d_gate;
        Params d_param;
        unpack_saved(saved, it.saved);
#pragma unroll
        for (int s = 0; s < kStates; ++s) {
          before[s] = kReads[s] ? it.before[s][0] : real(0);
          if (a.d_states[s]) it.d_state[s] += it.d_output[s][0];
        }
        apply_pointwise_backward(saved, before, it.after, it.param, it.d_state, d_gate, d_param);
        real values[kDensePairs];
#pragma unroll
        for (int pair = 0; pair < kDensePairs; ++pair) {
          values[pair] = it.valid ? d_gate[kPairGate[pair]] : real(0);
        }
        publish_values(values, lane & 1, it.in_bounds, [&](int pair) {
          return step_region + it.exchange_offset + pair * kDimKTiles * kTileKTileBytes;
        });
        add_diagonal_gradient(it.d_state, it.diagonal, d_gate);
        Vec<Element, kInputGates> d_wx;
        Vec<Element, kGatesNoInput> d_no_input;
        pack_gates(d_wx, d_no_input, d_gate);
        // Rows and units that do not exist add nothing, whatever the equations give for zeros.
        if (it.valid) {
          const int64 t_offset = t * step_size + it.offset;
          d_wx.store(a.d_wx + t_offset * kInputGates);
          d_no_input.store(a.d_gates_no_input + t_offset * kGatesNoInput);
          add_to_sums(it.sum, d_gate, d_param, before);
          if (kSumsInParts ? t % kPartSteps == 0 : t == 0) {
#pragma unroll
            for (int i = 0; i < kSums; ++i) {
              store_part_sum(a.sums + (it.row * kSums + i) * plane + it.unit, it.sum[i], t,
                             a.steps);
              it.sum[i] = 0;
            }
          }
        }
#pragma unroll
        for (int s = 0; s < kStates; ++s) it.after[s] = before[s];
      });
      prefetch(phase, t - 1);
    }
    step_region -= region_bytes;
  }

  product.finish();

  const auto each_of_all = [&](const auto& body) {
#pragma unroll
    for (int phase = 0; phase < kPhases; ++phase) each(phase, body);
  };
  each_of_all([&](Item& it) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (it.valid) a.d_initial_states[s][it.offset] = to_element<Element>(it.d_state[s]);
    }
  });
  if constexpr (kCluster > 1) {  // no block exits while a peer may still send to it
    cluster_sync();
  }
}

}  // namespace rnnc::grid_backward
