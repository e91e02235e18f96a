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

RNNC_INLINE void run(const GridArguments<ForwardArguments>& grid) {
  const ForwardArguments& a = grid.arguments;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int64 head = blockIdx.z, group = grid.first_group + blockIdx.y;
  const int first_unit = static_cast<int>(blockIdx.x) * kUnits;
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;
  const int steps = static_cast<int>(a.steps);

  Product product;
  product.load(
      shared + 2 * kPartialBytes, grid.streamed, a.R, warp, warp, lane,
      [&](int source, int tile, int tile_half) {
        const int half = 2 * tile + tile_half, pairs = kSourcePairs[source];
        const int unit = first_unit + half / pairs * 8 + (lane >> 2);
        const bool valid = half < Tiles::halves(source);
        const int matrix = valid ? kPairMatrix[kSourceFirstPair[source] + half % pairs] : 0;
        return RowRef{((matrix * a.heads + head) * kHeadDim + unit) * kHeadDim,
                      valid && unit < kHeadDim};
      },
      [&](int, int k_tile) { return int64{k_tile} * kKTile; });

  // A step's region of the exchange buffer has all groups of this launch; the tiles of a group are
  // contiguous.
  constexpr int k_tiles = kSources * kDimKTiles, tile_bytes = k_tiles * kTileKTileBytes;
  const int64 tiles = static_cast<int64>(gridDim.y) * kRowTiles;
  const int64 region_bytes = a.heads * tiles * tile_bytes;
  char* step_region = grid.exchange + (head * tiles + blockIdx.y * kRowTiles) * tile_bytes;

  // All lanes of a warp have items of a phase, or none has: publishing shuffles among all lanes.
  Item item[kThreadItems];
  const auto each = [&](int phase, const auto& body) {
    repeat<kThreadItems>([&](int i) {
      if (item[i].phase == phase) body(item[i]);
    });
  };
  repeat<kThreadItems>([&](int i) {
    const int number = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = number / kUnits % kGroupRows, unit_idx = number % kUnits;
    const int unit = first_unit + unit_idx;
    const int64 batch_row = group * kGroupRows + row;
    Item& it = item[i];
    it.valid = unit < kHeadDim && batch_row < a.batch && number < kItems;
    const int64 real_row = it.valid ? batch_row : 0;
    const int64 real_unit = head * kHeadDim + (it.valid ? unit : 0);
    it.offset = real_row * plane + real_unit;
    it.phase = number < kItems ? row / kPhaseRows : kPhases;
    it.in_bounds = unit < kDimKTiles * kKTile && number < kItems;
    it.input_offset = real_row * a.wx_row + real_unit * kInputGates;
    it.partial_offset = row % kPhaseRows * kPartialPitch + unit_idx * kPartialWidth;
    it.exchange_offset = row / kTileRows * tile_bytes + word_offset(row % kTileRows, unit);
    load_bias(it.bias, a, plane, real_unit);
    load_unit_weights(it.param, it.diagonal, a, plane, real_unit);
    repeat<kStates>([&](int s) { it.state[s] = to_real(a.initial_states[s][it.offset]); });
  });

  // An item that does not exist is published as zero, since the readers wait for it too.
  const auto publish = [&](int phase, char* to) {
    each(phase, [&](Item& it) {
      real values[kSources];
      repeat<kSources>([&](int source) {
        values[source] = it.valid ? it.state[kSourceState[source]] : real(0);
      });
      publish_values(values, lane & 1, it.in_bounds, [&](int source) {
        return to + it.exchange_offset + source * kDimKTiles * kTileKTileBytes;
      });
    });
  };
  const auto prefetch = [&](int phase, int t) {
    if (t < steps) {
      each(phase, [&](Item& it) { it.input.load(a.wx + t * a.wx_time + it.input_offset); });
    }
  };
  repeat<kPhases>([&](int phase) {
    publish(phase, step_region);
    prefetch(phase, 0);
  });

  int64 t_offset = 0;  // into [T, B, N, D], of this step
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
#pragma unroll 1
    for (int phase = 0; phase < kPhases; ++phase) {
      Product::Accumulators sum[Product::kTiles][kPhaseTiles];
      repeat<Product::kTiles>(
          [&](int tile) { repeat<kPhaseTiles>([&](int n) { sum[tile][n].clear(); }); });
      product.multiply(
          sum, step_region + lane * kLaneBytes + phase * kPhaseTiles * tile_bytes, warp,
          [&](int source) { return source * kDimKTiles * kTileKTileBytes; }, tile_bytes,
          Wait{a.watchdog, t, 0});

      // Two buffers: a warp that writes one again has passed the barrier that follows its reads.
      const int buffer_idx = (t * kPhases + phase) & 1;
      float* const partials = reinterpret_cast<float*>(shared + buffer_idx * kPartialBytes);
      unroll<kUnits / 8 * kPhaseTiles * 2>([&](auto index) {
        constexpr int number = decltype(index)::value, j = number % 2;
        constexpr int n = number / 2 % kPhaseTiles, unit_group = number / 2 / kPhaseTiles;
        float values[kPartialWidth] = {};
        unroll<kSources>([&](auto source_index) {
          constexpr int source = decltype(source_index)::value;
          unroll<kSourcePairs[source]>([&](auto pair_index) {
            constexpr int pair = decltype(pair_index)::value;
            constexpr int half = unit_group * kSourcePairs[source] + pair;
            constexpr int tile = Product::first_tile(source) + half / 2;
            values[kSourceFirstPair[source] + pair] = sum[tile][n].total(half % 2 * 2 + j);
          });
        });
        const int row = n * kTileRows + 2 * quad + j, unit = unit_group * 8 + (lane >> 2);
        store_partials(partials + warp * kWarpPartials + row * kPartialPitch + unit * kPartialWidth,
                       values);
      });
      __syncthreads();

      each(phase, [&](Item& it) {
        Gates gate;
        start_gates(gate, it.bias, it.input);
        add_diagonal(gate, it.diagonal, it.state);
        float total[kPartialWidth] = {};
        repeat<kWarps>(
            [&](int w) { add_partials(total, partials + w * kWarpPartials + it.partial_offset); });
        repeat<kDensePairs>([&](int pair) { gate[kPairGate[pair]] += total[pair]; });
        real next[kStates];
        with_sigmoid<false>([&](auto& sigmoid) {
          apply_pointwise_forward(gate, it.state, it.param, next, it.saved, sigmoid);
        });
        assign(it.state, next);
      });
      if (t + 1 < steps) publish(phase, step_region + region_bytes);
      prefetch(phase, t + 1);
      each(phase, [&](Item& it) {
        if (it.valid) {
          repeat<kStates>([&](int s) {
            if (a.states[s]) a.states[s][t_offset + it.offset] = to_element<Element>(it.state[s]);
          });
          if (kSaved && a.saved) {
            pack_saved(it.saved).store(a.saved + (t_offset + it.offset) * kSaved);
          }
        }
      });
    }
    step_region += region_bytes;
    t_offset += step_size;
  }
  product.finish();
  repeat<kPhases>([&](int phase) {
    each(phase, [&](Item& it) {
      repeat<kStates>([&](int s) {
        if (it.valid) a.last[s][it.offset] = to_element<Element>(it.state[s]);
      });
    });
  });
}

}  // namespace rnnc::grid_forward
