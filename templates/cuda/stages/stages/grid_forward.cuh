// Forward kernel of a grid plan for cells with stages: blocks on the whole GPU run all steps of a
// head and some batch rows, as in lib/kernels/grid_forward.cuh.
//
// Within a step, blocks exchange again before each stage that needs a product or a statistic. What
// called gates multiply has k-tiles of its own in the step's region, behind those of the states.
// The parts of statistics lie behind the regions of all steps, in regions of their own. So every
// word of the buffer is still written once in a launch: no data is overwritten, however far apart
// blocks run.
#pragma once

#include "lib/stages/grid/items_forward.cuh"
#include "lib/stages/grid/phases.cuh"

namespace rnnc::grid_forward {

// Whether the inputs of the next step are loaded while the first exchange within a step is in
// flight: the first stage has read this step's then. What rows restart from is read later.
constexpr bool kLoadsEarly = Plan::kFirstStageWaits && !kResetsAhead;

// What a thread does for the steps of its block.
struct StagedForward {
  const StagedForwardArguments& a;
  const Place place;
  const int steps, lane, warp;

  StagedProduct product;
  Items items;
  ItemStages own[Sizes::kThreadItems];
  GridRegion region, parts;  // of the step: of products, and of statistics
  int64 t_offset;            // into [T, B, N, D], of the step
  Hop<Plan> hop;
  int buffer;                // of partials; a warp that writes one again has passed the barrier
                             // that follows its reads

  RNNC_MEMBER explicit StagedForward(const GridArguments<StagedForwardArguments>& grid)
      : a(grid.arguments), place(grid), steps(static_cast<int>(place.tile.of(a))),
        lane(threadIdx.x & 31), warp(threadIdx.x >> 5), region(grid, place, kTileBytes),
        parts(grid, place, Statistics::kTileBytes) {
    parts.step += a.steps * region.bytes;
  }

  // How far away the region is whose lines are brought into L2 beside step t; 0: nowhere.
  RNNC_MEMBER int64 ahead_of(int t, const GridRegion& of) const {
    return t + kL2Steps < steps ? kL2Steps * of.bytes : 0;
  }

  RNNC_MEMBER void begin(const GridArguments<StagedForwardArguments>& grid) {
    load_weights(product, {a, grid.exchange, grid.streamed, grid.first_group}, place, warp, lane);
    load_items(items, a, place);
    repeat<Sizes::kThreadItems>([&](int i) {
      const bool is_one = items[i].valid && place.first_unit == 0 && items[i].unit_idx == 0;
      own[i].number_store.begin(a, place.time(a), place.head, items[i].row_place, is_one);
    });
    repeat<Plan::kPhases>([&](int phase) {
      publish_states(phase, region.step, 0);
      prefetch(items, phase, a, place, 0, steps);
    });
    t_offset = place.time(a).at(0) * place.step_size;
    buffer = 0;
  }

  RNNC_MEMBER void publish_states(int phase, char* to, int64 ahead) {
    if constexpr (sources_of(0) > 0) {
      for_items(items, phase, [&](Item& it) {
        real values[at_least_one(sources_of(0))];
        repeat<sources_of(0)>([&](int i) {
          values[i] = it.valid ? it.state[kSourceState[i]] : real(0);
        });
        publish_item(it, values, to, ahead);
      });
    }
  }
  // What called gates of a stage multiply, and parts of the statistics that it needs.
  template <int stage>
  RNNC_MEMBER void publish_for(int t, int phase) {
    constexpr int first = first_source_of(stage), count = sources_of(stage);
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      if constexpr (count > 0) {
        real values[count];
        repeat<count>([&](int i) {
          values[i] = it.valid ? known.value[kSourceValue[first + i]] : real(0);
        });
        char* const to = region.step + first * Sizes::kDimKTiles * kTileKTileBytes;
        publish_item(it, values, to, ahead_of(t, region));
      }
      Statistics::template publish<stage>(it, known.value, place.first_unit, parts.step,
                                          ahead_of(t, parts));
    });
    if constexpr (Statistics::words(stage) > 0) hop.published();
  }

  // Waits for what a stage multiplies, and adds the products to the gates of a phase's items.
  // Before the first stage these begin here: after the wait their inputs, loaded a step ahead, have
  // come.
  template <int stage>
  RNNC_MEMBER void multiply(int t, int phase) {
    if constexpr (sources_of(stage) > 0) {
      using Partials = StagePartials<stage>;
      StagedProduct::Sums<stage> sum;
      product.template multiply_for<stage>(
          sum, region.step + lane * kLaneBytes + phase * Sizes::kPhaseTiles * kTileBytes, warp,
          [&](int source) { return source * Sizes::kDimKTiles * kTileKTileBytes; }, kTileBytes,
          Wait{a.watchdog, t, 0});
      float* const partials = reinterpret_cast<float*>(shared + buffer);
      Partials::store(partials, sum, warp, lane);
      __syncthreads();
      if constexpr (stage == 0) begin_gates(phase);
      for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
        Partials::add(known.gate, it, partials);
      });
      buffer ^= kPartialBytes;
    } else if constexpr (stage == 0) {
      begin_gates(phase);
    }
  }

  // The gates of a step, as far as they do not wait for other units.
  RNNC_MEMBER void begin_gates(int phase) {
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      start_gates(known.gate, it.bias, it.input);
      it.unweighted.set(known.gate, 0, 0);
      add_state_diagonal(known.gate, it.diagonal, it.state);
    });
  }

  template <int stage>
  RNNC_MEMBER void run_stage(int t, int phase) {
    constexpr bool last = stage + 1 == Cell::kStages;
    if constexpr (stage > 0) {
      multiply<stage>(t, phase);
      if constexpr (sources_of(stage) == 0 && Statistics::words(stage) > 0) hop.wait();
      Statistics::template collect<stage>(items, phase, parts.step, Wait{a.watchdog, t, 0},
                                          [&](int i) -> real* { return own[i].number[0]; });
    }
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      for_weights_of<stage>([&](const StageWeight& weight) {
        known.gate[weight.gate] += it.diagonal[weight.weight] * known.value[weight.value];
      });
      States next;
      with_sigmoid<false>([&](auto& sigmoid) {
        apply_stage_forward<stage>(known.gate, it.state, it.param, known.number[0], known.value,
                                   next, it.saved, sigmoid);
      });
      if constexpr (last) {
        if constexpr (kResetsAhead) it.masks.read_reset(0, 0, [&](int s) { return it.reset[s]; });
        it.masks.select(0, 0, next);
        assign(it.state, next);
      }
    });
    if constexpr (!last) publish_for<stage + 1>(t, phase);
    if constexpr (stage == 0 && kLoadsEarly) prefetch(items, phase, a, place, t + 1, steps);
  }

  // After the last stage of step t: what the next step needs, then what this one stores.
  RNNC_MEMBER void end_step(int t, int phase) {
    if (t + 1 < steps) publish_states(phase, region.step + region.bytes, ahead_of(t + 1, region));
    for_items(items, phase, [&](Item& it) { look_ahead(it, a, place, t + 1); });
    if constexpr (!kLoadsEarly) prefetch(items, phase, a, place, t + 1, steps);
    for_known_items(items, own, phase, [&](Item& it, ItemStages& known) {
      // Zeros in padding: products over all steps read what called gates multiplied.
      it.masks.begin_store(t);
      repeat<Cell::kSaved>([&](int i) { it.saved[i] = it.masks.own_or_zero(0, it.saved[i]); });
      known.number_store.store(known.number);
    });
    store_items(items, phase, a, t, t_offset);
  }

  RNNC_MEMBER void run_step(int t) {
    // A first stage that reads no gate is computed while the states are on their way: then numbers
    // of the states alone are no further exchange.
    if constexpr (!Plan::kFirstStageWaits) {
      for_phases<Plan>([&](int phase) { run_stage<0>(t, phase); });
    }
    for_phases<Plan>([&](int phase) {
      multiply<0>(t, phase);
      if constexpr (Plan::kFirstStageWaits) run_stage<0>(t, phase);
    });
    for_later_stages<Plan>([&](auto index, int phase) {
      constexpr int stage = decltype(index)::value;
      this->template run_stage<stage>(t, phase);
      if constexpr (stage + 1 == Cell::kStages) end_step(t, phase);
    });
    region.step += region.bytes;
    parts.step += parts.bytes;
    t_offset += place.time(a).stride(place.step_size);
  }

  // After the last step: the last states, and zeros for steps that no row of the tile runs.
  RNNC_MEMBER void end() {
    repeat<Sizes::kThreadItems>([&](int i) {
      Item& it = items[i];
      if (it.phase == Plan::kPhases || !it.masks.finish(0, 0, a, steps, it.state)) return;
      repeat<Cell::kStates>([&](int s) {
        if (it.valid) a.last[s][it.offset] = to_element<Element>(it.state[s]);
      });
    });
    if constexpr (kMasked) {
      store_zeros(items, a, place, steps);
      if (Cell::kSaved && a.saved) store_saved_zeros();
    }
  }
  RNNC_MEMBER void store_saved_zeros() const {
    const Saved zeros = {};
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) {
      repeat<Sizes::kThreadItems>([&](int i) {
        if (!items[i].valid) return;
        Element* const to = a.saved + (t * place.step_size + items[i].offset) * Cell::kSaved;
        pack_saved(zeros).store(to);
      });
    }
  }
};

RNNC_INLINE void run_staged(const GridArguments<StagedForwardArguments>& grid) {
  StagedForward block(grid);
  block.begin(grid);
#pragma unroll 1
  for (int t = 0; t < block.steps; ++t) block.run_step(t);
  block.end();
}

}  // namespace rnnc::grid_forward
