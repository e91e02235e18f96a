// Backward kernel of a grid plan for cells with stages: blocks on the whole GPU run all steps of a
// head and some batch rows, as in lib/kernels/grid_backward.cuh.
//
// The stages of a step run in the order of the backward. A stage publishes the gradients of its
// gates as soon as it has them, and its parts of sums over the units. The next stages wait for the
// products with R transposed of called gates, and for the sums; the product for the states comes
// last, in the turn of the step before. Every word of the buffer is written once, as in the
// forward.
#pragma once

#include "lib/stages/grid/partials_backward.cuh"
#include "lib/stages/grid/phases.cuh"

namespace rnnc::grid_backward {

// What a thread does for the steps of its block.
struct StagedBackward {
  const StagedBackwardArguments& a;
  const Place place;
  const int steps, lane, warp, rank;

  StagedProduct product;
  Items items;
  ItemStages own[Sizes::kThreadItems];
  GridRegion region, parts;  // of the step: of products, and of statistics
  Hop<Plan> hop;
  int products;              // so far

  RNNC_MEMBER explicit StagedBackward(const GridArguments<StagedBackwardArguments>& grid)
      : a(grid.arguments), place(grid), steps(static_cast<int>(place.tile.of(a))),
        lane(threadIdx.x & 31), warp(threadIdx.x >> 5),
        rank(static_cast<int>(blockIdx.x) % Plan::kCluster), region(grid, place, kTileBytes),
        parts(grid, place, Statistics::kTileBytes), products(0) {
    parts.step += a.steps * region.bytes + (steps - 1) * parts.bytes;
    region.step += (steps - 1) * region.bytes;
  }

  // How far away the region is whose lines are brought into L2 beside step t; 0: nowhere.
  static RNNC_MEMBER int64 ahead_of(int t, const GridRegion& of) {
    return t >= kL2Steps ? -kL2Steps * of.bytes : 0;
  }
  // A wait for data of step t.
  RNNC_MEMBER Wait wait_for(int t) const { return Wait{a.watchdog, t, steps - 1}; }

  RNNC_MEMBER void begin(const GridArguments<StagedBackwardArguments>& grid) {
    load_weights(product, {a, grid.exchange, grid.streamed, grid.first_group}, place, rank, warp,
                 lane);
    load_items(items, a, place);
    if constexpr (Plan::kCluster > 1) {
      const u32 barriers = shared_address(shared + kBarrierOffset);
      if (threadIdx.x == 0) mbarrier_pair_init(barriers);
      cluster_sync();
      if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(barriers, received_bytes(0));
        mbarrier_arrive_expect_tx(barriers + 8, received_bytes(1));
      }
    }
    for_phases<Plan>([&](int phase) { load_step(phase, steps - 1); });
  }
  // Loads what step t reads, ahead of it.
  RNNC_MEMBER void load_step(int phase, int t) {
    prefetch(items, phase, a, place, t);
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      known.load_numbers(it, a, place, t);
    });
  }

  // Waits for the gradients that a stage multiplies, of step t in the region `from`, and gives the
  // items of a phase the products.
  template <int stage>
  RNNC_MEMBER void multiply(int t, int phase, const char* from) {
    if constexpr (sources_of(stage) > 0) {
      using Partials = StagePartials<stage>;
      // A warp that writes a buffer again has passed the barrier that follows its reads.
      const int buffer_idx = products & 1;
      float* const partials = reinterpret_cast<float*>(shared + buffer_idx * kPartialBytes);
      StagedProduct::Sums<stage> sum;
      product.template multiply_for<stage>(
          sum, from + lane * kLaneBytes + phase * Sizes::kPhaseTiles * kTileBytes,
          rank * Plan::kWarps + warp,
          [&](int source) {
            return kSourceFirstPair[source] * Sizes::kDimKTiles * kTileKTileBytes;
          },
          kTileBytes, wait_for(t));
      Partials::store(partials, sum, warp, lane);
      __syncthreads();
      if constexpr (Plan::kCluster > 1) Partials::exchange(partials, products, rank, wait_for(t));
      for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
        Partials::add(it, known.value, partials, buffer_idx);
      });
      ++products;
    }
  }

  template <int stage>
  RNNC_MEMBER void run_stage(int t, int phase) {
    if constexpr (stage > 0) {
      multiply<stage>(t, phase, region.step);
      if constexpr (sources_of(stage) == 0 && Statistics::words(stage) > 0) hop.wait();
      Statistics::template collect<stage>(items, phase, parts.step, wait_for(t),
                                          [&](int i) -> real* { return own[i].sum; });
    }
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      known.template run_stage<stage>(it);
      publish_gradients<stage>(it, known.d_gate, region.step, ahead_of(t, region));
      Statistics::template publish<stage + 1>(it, known.value, place.first_unit, parts.step,
                                              ahead_of(t, parts));
    });
    if constexpr (Statistics::words(stage + 1) > 0) hop.published();
  }

  // After the last stage of step t: stores the gradients of its gates.
  RNNC_MEMBER void end_step(int t, int phase) {
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      add_state_diagonal_gradient(it.d_state, it.diagonal, known.d_gate);
      assign(it.after, known.last);
      PackedGates packed(known.d_gate);
      packed.clear_unless(it.masks.runs(0));
      if (it.valid) packed.store(a, place.time(a).at(t) * place.step_size + it.offset);
      if (it.valid && (kSumsInParts ? t % kPartSteps == 0 : t == 0)) {
        SumOverTime* const to = a.sums + it.row * Cell::kSums * place.plane + it.unit;
        repeat<Cell::kSums>([&](int k) {
          store_part_sum(to + k * place.plane, it.sum[k], t, place.tile.of(a));
          it.sum[k] = 0;
        });
      }
      it.masks.advance(a, place.time(a), it.restarts.next(-place.time(a).stride(1)));
    });
    load_step(phase, t - 1);
  }
  // The product for the states of step t, which ends it.
  RNNC_MEMBER void finish_step(int t, int phase) {
    multiply<Cell::kStages>(t, phase, region.step + region.bytes);
    for_items(items, phase, [&](Item& it) {
      it.masks.cross(
          a, [&](int, int) { return it.valid; }, [&](int, int) -> States& { return it.d_state; });
    });
  }

  // From the product of the step after it on.
  RNNC_MEMBER void run_step(int t) {
    for_phases<Plan>([&](int phase) {
      if (t + 1 < steps) finish_step(t + 1, phase);
      if (t < 0) return;
      for_known_items(items, own, phase, [&](Item& it, ItemStages& known) { known.begin(it, a); });
      run_stage<0>(t, phase);
    });
    if (t < 0) return;
    for_later_stages<Plan>([&](auto index, int phase) {
      constexpr int stage = decltype(index)::value;
      this->template run_stage<stage>(t, phase);
      if constexpr (stage + 1 == Cell::kStages) end_step(t, phase);
    });
  }
  RNNC_MEMBER void run_steps() {
#pragma unroll 1
    for (int t = steps - 1; t >= -1; --t) {
      run_step(t);
      region.step -= region.bytes;
      parts.step -= parts.bytes;
    }
  }

  RNNC_MEMBER void end() {
    if constexpr (kMasked) store_zeros(items, a, place, steps);
    repeat<Sizes::kThreadItems>([&](int i) {
      Item& it = items[i];
      if (it.phase == Plan::kPhases) return;
      if (!it.masks.finish(0, 0, a, steps, it.valid, it.d_state)) return;
      repeat<Cell::kStates>([&](int s) {
        if (it.valid) a.d_initial_states[s][it.offset] = to_element<Element>(it.d_state[s]);
      });
    });
    // No block exits while a peer may still send to it.
    if constexpr (Plan::kCluster > 1) cluster_sync();
  }
};

RNNC_INLINE void run_staged(const GridArguments<StagedBackwardArguments>& grid) {
  StagedBackward block(grid);
  block.begin(grid);
  block.run_steps();
  block.end();
}

}  // namespace rnnc::grid_backward
