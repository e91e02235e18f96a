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

#include "lib/kernels/grid_partials_backward.cuh"

namespace rnnc::grid_backward {

// R is transposed: [kDensePairs, N, D in, D out].
RNNC_INLINE void load_weights(Product& product, const GridArguments<BackwardArguments>& grid,
                              const Place& place, int rank, int warp, int lane) {
  const int cluster_unit = place.first_unit - rank * Plan::kUnits;
  product.load(
      shared + kWeightsOffset, grid.streamed, grid.arguments.R, rank * Plan::kWarps + warp, warp,
      lane,
      [&](int, int tile, int tile_half) {
        const int own = 16 * tile + 8 * tile_half + (lane >> 2), unit = cluster_unit + own;
        return RowRef{int64{unit} * Plan::kHeadDim, own < kClusterUnits && unit < Plan::kHeadDim};
      },
      [&](int source, int k_tile) {
        const int pair = minimum(k_tile / Sizes::kDimKTiles, kSourcePairs[source] - 1);
        const int matrix = kPairMatrix[kSourceFirstPair[source] + pair];
        return (matrix * grid.arguments.heads + place.head) * Plan::kHeadDim * Plan::kHeadDim +
               k_tile % Sizes::kDimKTiles * kKTile;
      });
}

RNNC_INLINE void load_items(Items& items, const BackwardArguments& a, const Place& place) {
  const int steps = static_cast<int>(place.tile.of(a));
  repeat<Sizes::kThreadItems>([&](int i) {
    Item& it = items[i];
    it.find(static_cast<int>(threadIdx.x) + i * Sizes::kThreads, place, a, kTileBytes);
    it.partial_offset = Plan::kCluster > 1
                            ? (it.phase_row / 4 * Plan::kUnits + it.unit_idx) * 4 + it.phase_row % 4
                            : it.unit_idx * kRowPitch + it.phase_row;
    load_unit_weights(it.param, it.diagonal, a, place.plane, it.unit);
    repeat<Cell::kSums>([&](int k) { it.sum[k] = 0; });
    repeat<Cell::kStates>([&](int s) {
      const Element* last = a.states[s] + place.time(a).at(steps - 1) * place.step_size;
      it.after[s] = kReads[s] && steps > 0 ? to_real(last[it.offset]) : real(0);
      it.d_state[s] = a.d_last[s] ? to_real(a.d_last[s][it.offset]) : real(0);
    });
    it.masks.place_row(0, it.row, it.row_place);
    it.masks.place_unit(0, it.unit);
    it.unweighted.place_row(0, it.row);
    it.unweighted.place_unit(0, place.head, it.unit - place.head * Plan::kHeadDim);
    it.masks.begin(a, place.time(a), steps);
    it.restarts.begin(a, place.time(a), it.row_place, steps - 1, -place.time(a).stride(1));
    it.masks.advance(a, place.time(a), it.restarts.next(-place.time(a).stride(1)));
  });
}

RNNC_INLINE void prefetch(Items& items, int phase, const BackwardArguments& a, const Place& place,
                          int t) {
  if (t < 0) return;
  for_items(items, phase, [&](Item& it) {
    const int64 step = place.time(a).at(t), t_offset = step * place.step_size + it.offset;
    const int64 stride = place.time(a).stride(place.step_size);
    const Element* const saved = a.saved + t_offset * Cell::kSaved;
    it.saved.load(saved);
    it.unweighted.load(a, place.time(a), t, place.tile.of(a));
    if (t >= kL2Steps) prefetch_l2(saved - kL2Steps * stride * Cell::kSaved);
    repeat<Cell::kStates>([&](int s) {
      if (kReads[s]) {
        const Element* const before = a.states[s] + (t_offset - stride);
        it.before[s].load(t > 0 ? before : a.initial_states[s] + it.offset);
        if (t > kL2Steps) prefetch_l2(before - kL2Steps * stride);
        // In reverse there is no such value before the first step.
        if (kResetsAhead && (t > 0 || !place.time(a).reversed)) {
          const int64 ahead = t > kL2Steps ? -kL2Steps : 0;
          it.reset.load(a, place.time(a), s, t, it.row, it.unit, ahead);
        }
      }
      if (a.d_states[s]) {
        const Element* const d_output =
            a.d_states[s] + step * a.d_states_time[s] + it.row * a.d_states_row[s] + it.unit;
        it.d_output[s].load(d_output);
        if (t >= kL2Steps) {
          prefetch_l2(d_output - kL2Steps * place.time(a).stride(a.d_states_time[s]));
        }
      }
    });
  });
}

// Publishes the gradients of an item's gates, one value per dense pair.
RNNC_INLINE void publish(const Item& it, const Gates& d_gate, char* to, int64 ahead) {
  real values[Cell::kDensePairs];
  repeat<Cell::kDensePairs>(
      [&](int pair) { values[pair] = it.valid ? d_gate[kPairGate[pair]] : real(0); });
  publish_item(it, values, to, ahead);
}

// The gradients of step t for one item, published in the step's region.
RNNC_INLINE void compute_item(Item& it, const BackwardArguments& a, const Place& place, int t,
                              const GridRegion& region) {
  ReadValues saved;
  States last, before;
  Gates d_gate;
  Params d_param;
  unpack_saved(saved, it.saved);
  it.unweighted.set_read(saved, 0, 0);
  repeat<Cell::kStates>([&](int s) {
    last[s] = kReads[s] ? it.before[s][0] : real(0);
    if (a.d_states[s]) it.d_state[s] += it.d_output[s][0];
  });
  repeat<Cell::kStates>([&](int s) {
    if (kResetsAhead && kReads[s]) it.masks.set_reset(0, 0, s, it.reset[s]);
  });
  it.masks.select_before(0, 0, before, last);
  apply_pointwise_backward(saved, before, it.after, it.param, it.d_state, d_gate, d_param);
  publish(it, d_gate, region.step, t >= kL2Steps ? -kL2Steps * region.bytes : 0);
  add_diagonal_gradient(it.d_state, it.diagonal, d_gate);
  PackedGates packed(d_gate);
  packed.clear_unless(it.masks.runs(0));
  // Rows and units that do not exist add nothing, whatever the equations give for zeros.
  if (it.valid) {
    packed.store(a, place.time(a).at(t) * place.step_size + it.offset);
    if (it.masks.runs(0)) add_to_sums(it.sum, d_gate, d_param, before);
    if (kSumsInParts ? t % kPartSteps == 0 : t == 0) {
      repeat<Cell::kSums>([&](int k) {
        SumOverTime* const to = a.sums + (it.row * Cell::kSums + k) * place.plane + it.unit;
        store_part_sum(to, it.sum[k], t, place.tile.of(a));
        it.sum[k] = 0;
      });
    }
  }
  assign(it.after, last);
}

// Zeros for the steps that no row of the tile runs.
RNNC_INLINE void store_zeros(const Items& items, const BackwardArguments& a, const Place& place,
                             int steps) {
  const Gates zeros = {};
  const PackedGates packed(zeros);
#pragma unroll 1
  for (int64 t = steps; t < a.steps; ++t) {
    repeat<Sizes::kThreadItems>([&](int i) {
      if (items[i].valid) packed.store(a, t * place.step_size + items[i].offset);
    });
  }
}

RNNC_INLINE void run(const GridArguments<BackwardArguments>& grid) {
  const BackwardArguments& a = grid.arguments;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int rank = static_cast<int>(blockIdx.x) % Plan::kCluster;
  const Place place(grid);
  const int steps = static_cast<int>(place.tile.of(a));
  Product product;
  load_weights(product, grid, place, rank, warp, lane);
  GridRegion region(grid, place, kTileBytes);
  region.step += (steps - 1) * region.bytes;
  Items items;
  load_items(items, a, place);
  if constexpr (Plan::kCluster > 1) {
    const u32 barriers = shared_address(shared + kBarrierOffset);
    if (threadIdx.x == 0) mbarrier_pair_init(barriers);
    cluster_sync();
    if (threadIdx.x == 0) mbarrier_pair_expect_tx(barriers, kReceivedBytes);
  }
#pragma unroll
  for (int phase = 0; phase < Plan::kPhases; ++phase) prefetch(items, phase, a, place, steps - 1);

#pragma unroll 1
  for (int t = steps - 1; t >= -1; --t) {
#pragma unroll 1
    for (int phase = 0; phase < Plan::kPhases; ++phase) {
      if (t < steps - 1) {
        // Products so far. Two buffers: a warp that writes one again has passed the barrier that
        // follows its reads.
        const int products = (steps - 2 - t) * Plan::kPhases + phase, buffer_idx = products & 1;
        float* const partials = reinterpret_cast<float*>(shared + buffer_idx * kPartialBytes);
        // NOTE: in float32, where R fills the registers, the wait uses values that are in registers
        // anyway.
        const Wait wait =
            kPack == 1 ? Wait{a.watchdog, products, 0} : Wait{a.watchdog, t, steps - 2};
        Product::Accumulators sum;
        product.multiply(
            sum,
            region.step + region.bytes + lane * kLaneBytes +
                phase * Sizes::kPhaseTiles * kTileBytes,
            rank * Plan::kWarps + warp,
            [&](int source) {
              return kSourceFirstPair[source] * Sizes::kDimKTiles * kTileKTileBytes;
            },
            kTileBytes, wait);
        store_partials(partials, sum, warp, lane);
        __syncthreads();
        if constexpr (Plan::kCluster > 1) exchange_partials(partials, products, rank, wait);
        add_partials(items, phase, partials, buffer_idx);
        for_items(items, phase, [&](Item& it) {
          it.masks.cross(
              a, [&](int, int) { return it.valid; },
              [&](int, int) -> States& { return it.d_state; });
        });
      }
      if (t < 0) continue;
      for_items(items, phase, [&](Item& it) {
        compute_item(it, a, place, t, region);
        it.masks.advance(a, place.time(a), it.restarts.next(-place.time(a).stride(1)));
      });
      prefetch(items, phase, a, place, t - 1);
    }
    region.step -= region.bytes;
  }

  product.finish();
  if constexpr (kMasked) store_zeros(items, a, place, steps);
  repeat<Plan::kPhases>([&](int phase) {
    for_items(items, phase, [&](Item& it) {
      if (!it.masks.finish(0, 0, a, steps, it.valid, it.d_state)) return;
      repeat<Cell::kStates>([&](int s) {
        if (it.valid) a.d_initial_states[s][it.offset] = to_element<Element>(it.d_state[s]);
      });
    });
  });
  // No block exits while a peer may still send to it.
  if constexpr (Plan::kCluster > 1) cluster_sync();
}

}  // namespace rnnc::grid_backward
