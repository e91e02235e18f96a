// Forward kernel of a grid plan: blocks on the whole GPU run all steps of a head and some batch
// rows, with R in registers and shared memory, or streamed; h is exchanged through L2.
//
// A block owns kUnits units. Its warps share K; rows of R are interleaved by gate, so that a
// thread's accumulators hold partials of all gates of a unit. After one barrier per phase each
// thread adds the partials of its items, whose states stay in its registers. The items of a warp
// are neighbouring units, so its accesses to memory are contiguous.
//
// Several tiles of batch rows may be computed in phases, one after the other: while the results of
// one are in flight to the other blocks, the next is multiplied.
#pragma once

#include "lib/kernels/grid_layout_forward.cuh"

namespace rnnc::grid_forward {

RNNC_INLINE void load_weights(Product& product, const GridArguments<ForwardArguments>& grid,
                              const Place& place, int warp, int lane) {
  product.load(
      shared + 2 * kPartialBytes, grid.streamed, grid.arguments.R, warp, warp, lane,
      [&](int source, int tile, int tile_half) {
        const int half = 2 * tile + tile_half, pairs = kSourcePairs[source];
        const int unit = place.first_unit + half / pairs * 8 + (lane >> 2);
        const bool valid = half < Tiles::halves(source);
        const int matrix = valid ? kPairMatrix[kSourceFirstPair[source] + half % pairs] : 0;
        const int64 row = (matrix * grid.arguments.heads + place.head) * Plan::kHeadDim + unit;
        return RowRef{row * Plan::kHeadDim, valid && unit < Plan::kHeadDim};
      },
      [&](int, int k_tile) { return int64{k_tile} * kKTile; });
}

// Ahead of step t.
RNNC_INLINE void look_ahead(Item& it, const ForwardArguments& a, const Place& place, int t) {
  const TimeOrder time = place.time(a);
  it.masks.ahead(a, time, t, it.restarts.next(time.stride(1)));
}

RNNC_INLINE void load_items(Items& items, const ForwardArguments& a, const Place& place) {
  repeat<Sizes::kThreadItems>([&](int i) {
    Item& it = items[i];
    it.find(static_cast<int>(threadIdx.x) + i * Sizes::kThreads, place, a, kTileBytes);
    it.input_offset = it.row * a.wx_row + it.unit * Cell::kInputGates;
    it.partial_offset = it.phase_row * kPartialPitch + it.unit_idx * kPartialWidth;
    load_bias(it.bias, a, place.plane, it.unit);
    load_unit_weights(it.param, it.diagonal, a, place.plane, it.unit);
    repeat<Cell::kStates>([&](int s) { it.state[s] = to_real(a.initial_states[s][it.offset]); });
    it.masks.place_row(0, it.row, it.row_place);
    it.masks.place_unit(0, it.unit);
    it.unweighted.place_row(0, it.row);
    it.unweighted.place_unit(0, place.head, it.unit - place.head * Plan::kHeadDim);
    it.masks.begin(a, place.time(a), static_cast<int>(place.tile.of(a)));
    it.restarts.begin(a, place.time(a), it.row_place, 1, place.time(a).stride(1));
    it.masks.begin_states(0, 0, a, place.time(a), it.state);
    look_ahead(it, a, place, 0);
  });
}

// `steps` counts those of the tile. To read it from the arguments again would delay the loads.
RNNC_INLINE void prefetch(Items& items, int phase, const ForwardArguments& a, const Place& place,
                          int t, int steps) {
  if (t >= steps) return;
  for_items(items, phase, [&](Item& it) {
    const Element* const from = a.wx + place.time(a).at(t) * a.wx_time + it.input_offset;
    it.input.load(from);
    if (t + kL2Steps < steps) prefetch_l2(from + kL2Steps * place.time(a).stride(a.wx_time));
    it.unweighted.load(a, place.time(a), t, steps);
    if (!kResetsAhead || t + 1 >= steps) return;
    const int64 ahead = t + 1 + kL2Steps < steps ? kL2Steps : 0;
    repeat<Cell::kStates>([&](int s) {
      it.reset.load(a, place.time(a), s, t + 1, it.row, it.unit, ahead);
    });
  });
}

// An item that does not exist is published as zero, since the readers wait for it too.
RNNC_INLINE void publish(Items& items, int phase, char* to, int64 ahead) {
  for_items(items, phase, [&](Item& it) {
    real values[Cell::kSources];
    repeat<Cell::kSources>(
        [&](int source) { values[source] = it.valid ? it.state[kSourceState[source]] : real(0); });
    publish_item(it, values, to, ahead);
  });
}

RNNC_INLINE void store_partials(float* partials, const Product::Accumulators& sum, int warp,
                                int lane) {
  unroll<Plan::kUnits / 8 * Sizes::kPhaseTiles * 2>([&](auto index) {
    constexpr int j = index % 2, n = index / 2 % Sizes::kPhaseTiles;
    constexpr int unit_group = index / 2 / Sizes::kPhaseTiles;
    float values[kPartialWidth] = {};
    unroll<Cell::kSources>([&](auto source_index) {
      constexpr int source = source_index;
      unroll<kSourcePairs[source]>([&](auto pair) {
        constexpr int half = unit_group * kSourcePairs[source] + pair;
        constexpr int tile = Product::first_tile(source) + half / 2;
        values[kSourceFirstPair[source] + pair] = sum[tile][n].total(half % 2 * 2 + j);
      });
    });
    const int row = n * kTileRows + 2 * (lane & 3) + j, unit = unit_group * 8 + (lane >> 2);
    PartialAccess access;
    access.set(values);
    access.write(partials + warp * kWarpPartials + row * kPartialPitch + unit * kPartialWidth);
  });
}

// The states of a phase's items after a step.
RNNC_INLINE void compute_items(Items& items, int phase, const float* partials) {
  for_items(items, phase, [&](Item& it) {
    Gates gate;
    start_gates(gate, it.bias, it.input);
    it.unweighted.set(gate, 0, 0);
    add_diagonal(gate, it.diagonal, it.state);
    float total[kPartialWidth] = {};
    repeat<Plan::kWarps>([&](int w) {
      PartialAccess access;
      access.read(partials + w * kWarpPartials + it.partial_offset);
      repeat<kPartialWidth>([&](int i) { total[i] += access[i]; });
    });
    repeat<Cell::kDensePairs>([&](int pair) { gate[kPairGate[pair]] += total[pair]; });
    States next;
    with_sigmoid<false>([&](auto& sigmoid) {
      apply_pointwise_forward(gate, it.state, it.param, next, it.saved, sigmoid);
    });
    if constexpr (kResetsAhead) it.masks.read_reset(0, 0, [&](int s) { return it.reset[s]; });
    it.masks.select(0, 0, next);
    assign(it.state, next);
  });
}

RNNC_INLINE void store_items(Items& items, int phase, const ForwardArguments& a, int t,
                             int64 t_offset) {
  for_items(items, phase, [&](Item& it) {
    it.masks.begin_store(t);
    if constexpr (kMasked) {
      it.masks.store_last(
          a, t, [&](int, int) { return it.valid; },
          [&](Element* tensor, int, int, int) { return tensor + it.offset; });
    }
    if (!it.valid) return;
    repeat<Cell::kStates>([&](int s) {
      if (a.states[s]) {
        const real result = it.masks.own_or_zero(0, it.masks.results(0, 0, it.state)[s]);
        a.states[s][t_offset + it.offset] = to_element<Element>(result);
      }
    });
    if (Cell::kSaved && a.saved) {
      pack_saved(it.saved).store(a.saved + (t_offset + it.offset) * Cell::kSaved);
    }
  });
}

// Zeros for the steps that no row of the tile runs.
RNNC_INLINE void store_zeros(const Items& items, const ForwardArguments& a, const Place& place,
                             int steps) {
#pragma unroll 1
  for (int64 t = steps; t < a.steps; ++t) {
    repeat<Sizes::kThreadItems>([&](int i) {
      repeat<Cell::kStates>([&](int s) {
        if (!items[i].valid || !a.states[s]) return;
        a.states[s][t * place.step_size + items[i].offset] = to_element<Element>(real(0));
      });
    });
  }
}

RNNC_INLINE void run(const GridArguments<ForwardArguments>& grid) {
  const ForwardArguments& a = grid.arguments;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const Place place(grid);
  const int steps = static_cast<int>(place.tile.of(a));
  Product product;
  load_weights(product, grid, place, warp, lane);
  GridRegion region(grid, place, kTileBytes);
  Items items;
  load_items(items, a, place);
  repeat<Plan::kPhases>([&](int phase) {
    publish(items, phase, region.step, 0);
    prefetch(items, phase, a, place, 0, steps);
  });

  int64 t_offset = place.time(a).at(0) * place.step_size;  // into [T, B, N, D], of this step
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
#pragma unroll 1
    for (int phase = 0; phase < Plan::kPhases; ++phase) {
      Product::Accumulators sum;
      product.multiply(
          sum, region.step + lane * kLaneBytes + phase * Sizes::kPhaseTiles * kTileBytes, warp,
          [&](int source) { return source * Sizes::kDimKTiles * kTileKTileBytes; }, kTileBytes,
          Wait{a.watchdog, t, 0});
      // Two buffers: a warp that writes one again has passed the barrier that follows its reads.
      const int buffer_idx = (t * Plan::kPhases + phase) & 1;
      float* const partials = reinterpret_cast<float*>(shared + buffer_idx * kPartialBytes);
      store_partials(partials, sum, warp, lane);
      __syncthreads();
      compute_items(items, phase, partials);
      if (t + 1 < steps) {
        const int64 ahead = t + 1 + kL2Steps < steps ? kL2Steps * region.bytes : 0;
        publish(items, phase, region.step + region.bytes, ahead);
      }
      for_items(items, phase, [&](Item& it) { look_ahead(it, a, place, t + 1); });
      prefetch(items, phase, a, place, t + 1, steps);
      store_items(items, phase, a, t, t_offset);
    }
    region.step += region.bytes;
    t_offset += place.time(a).stride(place.step_size);
  }
  product.finish();
  repeat<Plan::kPhases>([&](int phase) {
    for_items(items, phase, [&](Item& it) {
      if (!it.masks.finish(0, 0, a, steps, it.state)) return;
      repeat<Cell::kStates>([&](int s) {
        if (it.valid) a.last[s][it.offset] = to_element<Element>(it.state[s]);
      });
    });
  });
  if constexpr (kMasked) store_zeros(items, a, place, steps);
}

}  // namespace rnnc::grid_forward
