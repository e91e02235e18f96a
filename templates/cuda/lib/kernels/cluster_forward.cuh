// Forward kernel of a cluster plan: a cluster of blocks runs all steps of one head and 8 batch
// rows, with R in registers; each block pushes h to its peers.
//
// A block owns Plan::kUnits units. Rows of R are interleaved by gate: the two halves of an m16 tile
// are 8 units of one gate and the same units of the next. So a thread's accumulators hold all gates
// of unit lane / 4, for columns 2q and 2q + 1, q = lane % 4. Plan::kSplits warps share K of the
// same units and add their partials through shared memory; then each of the first two warps takes
// one of the columns.
//
// Every block has all of h, of 8 rows, in two buffers with an mbarrier each. Step t reads buffer t
// % 2 once its mbarrier has counted all bytes of h, and pushes its results to buffer (t + 1) % 2 of
// every block. There is no other synchronisation between blocks:
//
// - A buffer is not overwritten while it is read. A warp that pushes at step t has waited for all
//   of step t's h, a part of which came from each warp of each peer. Those warps pushed their part
//   at step t - 1 after their reads of buffer (t - 1) % 2, which step t's pushes overwrite; with
//   Plan::kSplits > 1 they also passed the barrier that follows the reads of the other warps of the
//   same units.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
//   the bytes of one step's h, and by the argument above bytes of a later step cannot come before.
//   They may come before their own announcement, which then finds them already counted.
// - No warp misses a phase. The phase of step t + 2 cannot complete before this block has pushed at
//   step t + 1, which is after all of its warps have seen the phase of step t complete.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
#pragma once

#include "lib/cell/items_forward.cuh"
#include "lib/exchange/handover.cuh"
#include "lib/exchange/state_push.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::cluster_forward {

// Item j of a thread is unit first_unit + lane / 4 and column 2 quad + j, or 2 quad + split, which
// is the batch row at the place that far from the first. If there is no such unit or row, the thread
// computes another item's values and stores none; for a unit that does not exist it pushes zeros.
struct Items : ForwardItems<1, kItems> {
  bool exists;      // the unit
  int valid_items;  // how many of the items, the first ones, have results to store
  // An address is a uniform pointer and one of these offsets, in bytes: into [B, N, D], and into
  // [T, B, N, D] at the step whose results are stored next.
  int64 offset_bytes[kItems], t_offset_bytes[kItems], t_stride_bytes;
  int input_offset[kItems], reset_offset[kItems];  // in stages, in bytes

  RNNC_MEMBER void load(const ForwardArguments& a, int64 head, int unit, int64 first_row, int lane,
                        const TileSteps& tile_steps, const Order& order) {
    exists = Plan::kCluster * Plan::kUnits == Plan::kHeadDim || unit < Plan::kHeadDim;
    const int64 plane = a.heads * Plan::kHeadDim,
                real_unit = head * Plan::kHeadDim + (exists ? unit : 0);
    const int quad = lane & 3;
    const int64 item_row = first_row + 2 * quad;
    valid_items = pin(!exists || item_row >= a.batch ? 0 : item_row + 1 < a.batch ? 2 : 1);
    load_unit(0, a, plane, real_unit);
    masks.place_unit(0, real_unit);
    unweighted.place_unit(0, head, exists ? unit : 0);
    repeat<kItems>([&](int j) {
      const int64 place = item_row + j < a.batch ? item_row + j : 0, row = row_at(a, place);
      masks.place_row(j, row, place);
      unweighted.place_row(j, row);
      offset_bytes[j] = launder((row * plane + real_unit) * int64{sizeof(Element)});
      input_offset[j] = launder(InputCopy::offset(kItems * quad + j, exists ? lane >> 2 : 0));
      reset_offset[j] = kept(StateCopy::offset(kItems * quad + j, exists ? lane >> 2 : 0));
      repeat<Cell::kStates>([&](int s) {
        state[0][j][s] = to_real(*element_at(a.initial_states[s], offset_bytes[j]));
      });
    });
    const TimeOrder time(tile_steps.of(a), order);
    const int64 step_bytes = a.batch * plane * int64{sizeof(Element)};
    t_stride_bytes = time.stride(step_bytes);
    repeat<kItems>(
        [&](int j) { t_offset_bytes[j] = offset_bytes[j] + time.at(0) * step_bytes; });
    begin_masks(a, time, static_cast<int>(tile_steps.of(a)));
  }

  RNNC_MEMBER void collect(Words& words, const PerItem<States>& states, int lane) const {
    repeat<Cell::kSources>([&](int source) {
      real value[kItems];
      repeat<kItems>(
          [&](int j) { value[j] = exists ? states[0][j][kSourceState[source]] : real(0); });
      StatePush::collect(Element{}, words[source], value, lane);
    });
  }

  // What rows that restart after this step begin from.
  RNNC_MEMBER void read_resets(const char* stage) {
    if constexpr (kResetsAhead) {
      repeat<kItems>([&](int j) {
        const int offset = InputCopy::kBytes + reset_offset[j];
        masks.read_reset(0, j, [&](int s) { return ResetCopy::read(stage, s, offset); });
      });
    }
  }
  // The gates without the product.
  RNNC_MEMBER void start(PerItem<Gates>& gate, const char* stage) const {
    repeat<kItems>([&](int j) {
      start_gates(gate[0][j], bias[0], InputCopy::read(stage, input_offset[j]));
      unweighted.set(gate[0][j], 0, j);
      add_diagonal(gate[0][j], diagonal[0], state[0][j]);
    });
  }

  // Calls body(valid, at) with what the functions that store take.
  template <typename Body>
  RNNC_MEMBER void at_step(const Body& body) const {
    body([&](int, int j) { return j < valid_items; },
         [&](Element* tensor, int n, int, int j) {
           return element_at(tensor, t_offset_bytes[j] * n);
         });
  }
  // The same for a tensor of states, [B, N, D].
  template <typename Body>
  RNNC_MEMBER void at_rows(const Body& body) const {
    body([&](int, int j) { return j < valid_items; },
         [&](Element* tensor, int, int, int j) { return element_at(tensor, offset_bytes[j]); });
  }
  RNNC_MEMBER void store_step(const ForwardArguments& a) {
    at_step([&](const auto& valid, const auto& at) { store(a, valid, at); });
    repeat<kItems>([&](int j) { t_offset_bytes[j] += t_stride_bytes; });
  }
  // Stores zeros for the steps that no row of the tile runs.
  RNNC_MEMBER void store_zeros(const ForwardArguments& a, int64 steps) {
    masks.clear();
    const int64 step_bytes = a.batch * a.heads * Plan::kHeadDim * int64{sizeof(Element)};
#pragma unroll 1
    for (int64 t = steps; t < a.steps; ++t) {
      repeat<kItems>([&](int j) { t_offset_bytes[j] = offset_bytes[j] + t * step_bytes; });
      at_step([&](const auto& valid, const auto& at) { store_states(a, valid, at); });
    }
  }
};
using ItemGates = Items::PerItem<Gates>;

// Copies wx of later steps: a step is shorter than a round trip to memory.
struct Inputs {
  InputCopy::Pieces pieces;
  InputCopy copy;
  ResetCopy reset;
  TimeOrder time;
  TileSteps tile;
  char* stages;  // in shared memory

  RNNC_MEMBER void start(const ForwardArguments& a, u32 shared_begin, int64 head, int first_unit,
                         int64 first_row, int warp, int lane, const TileSteps& tile_steps,
                         const Order& order) {
    pieces.prepare(a, lane, first_unit, first_row, kItems == 2 ? 1 : 2);
    tile = tile_steps;
    time = TimeOrder(tile.of(a), order);
    const Element* const first_input = a.wx + time.at(0) * a.wx_time;
    copy.start(pieces, first_input + head * Plan::kHeadDim * Cell::kInputGates, a.wx_row);
    stages = shared_pointer(pin(shared_begin + kInputsOffset + warp * kWarpStageBytes));
    reset.start(a, time, 1, lane, head, first_unit, first_row, kItems == 2 ? 1 : 2);
  }
  RNNC_MEMBER const char* stage(int stage_idx) const { return stages + stage_idx * kStageBytes; }
  RNNC_MEMBER void prefetch(const ForwardArguments& a, int t, int stage_idx,
                            Handover<false>& handover) {
    if (t < static_cast<int>(tile.of(a))) {
      handover.wait(a, t);
      copy.issue(pieces, stages + stage_idx * kStageBytes);
      copy.advance(time.stride(a.wx_time));
      if (t + 1 < static_cast<int>(tile.of(a))) {
        reset.issue(stages + stage_idx * kStageBytes + InputCopy::kBytes);
      }
    }
    cp_async_commit();
  }
};

// Starts the accumulators from the gates without the product, once among the warps that share K.
RNNC_INLINE void seed(Product& product, const ItemGates& gate, int split) {
  Tiles::for_pairs([&](auto pair, auto, auto tile, auto half) {
    if constexpr (kSeeded && first_of_gate(pair)) {
      repeat<2>([&](int j) {
        const float value = gate[0][j % kItems][kPairGate[pair]];
        product[tile].part[0][2 * half + j] = launder(kItems == 2 || split == j ? value : 0.0f);
      });
    }
  });
}
RNNC_INLINE void finish_gates(ItemGates& gate, const Totals& total) {
  Tiles::for_pairs([&](auto pair, auto, auto tile, auto half) {
    repeat<kItems>([&](int j) {
      const float own = total[tile][half][j];
      real& sum = gate[0][j][kPairGate[pair]];
      sum = kSeeded && first_of_gate(pair) ? own : sum + own;
    });
  });
}

RNNC_INLINE void run_head(const ForwardArguments& a, const Order& order) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int group = warp / Plan::kSplits, split = warp % Plan::kSplits;
  // Whether this warp has items; the other warps only compute partials.
  const bool computes = Plan::kSplits <= 2 || split < 2;
  // NOTE: laundered, so that it stays in registers: a kernel argument would be loaded again in each
  // wait.
  const int64 watchdog = launder(a.watchdog);
  const u32 rank = cluster_ctarank(), shared_begin = pin(shared_address(rnnc::shared));
  char* const shared = shared_pointer(shared_begin);
  const u32 barriers = shared_begin + kBarriersOffset;
  const int64 head = a.first_head + blockIdx.y, first_row = (a.first_tile + blockIdx.z) * kColumns;
  const int first_unit = static_cast<int>(rank) * Plan::kUnits + group * kGroupUnits;
  const int first_column = kItems == 2 ? 0 : split & 1, unit = first_unit + (lane >> 2);

  Weights weights;
  weights.load(a.R, a.heads, head, unit, split * kSplitKTiles, lane);

  for (int i = threadIdx.x; i < kSharedBytes / 4; i += 32 * kWarps) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_pair_init(barriers);

  const TileSteps tile_steps(a, first_row, kColumns);
  const int steps = static_cast<int>(tile_steps.of(a));
  const bool is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
  Items items;
  items.load(a, head, unit, first_row + first_column, lane, tile_steps, order);

  StatePush state_push;
  state_push.prepare(shared_begin, rank, first_unit, split & 1, lane);

  Inputs inputs;
  inputs.start(a, shared_begin, head, first_unit, first_row + first_column,
               Plan::kSplits == 1 ? group : group * 2 + (split & 1), lane, tile_steps,
               order);

  Handover<false> handover(a);
  cluster_sync();
  if (is_leader) mbarrier_pair_expect_tx(barriers, kPushedBytes);
  if (computes && steps > 0) {
    Words words;
    items.collect(words, items.state, lane);
    state_push.publish(words);
    items.unweighted.load(a, inputs.time, 0, steps);
    items.masks.begin_parts(a, inputs.time, first_row, steps);
#pragma unroll 1
    for (int stage = 0; stage < Plan::kNumStages; ++stage) {
      inputs.prefetch(a, stage, stage, handover);
    }
  }

  const u32 fragments = pin(shared_begin + StateExchange::first_fragment(lane) +
                            split * kSplitKTiles * StateExchange::kRowsKTileBytes);
  int stage_idx = 0;
  int t = 0;
  do {
    int stop = steps;
    if (kMasked && computes) {
      items.at_rows([&](const auto& valid, const auto& at) {
        stop = items.masks.begin_part<0>(a, inputs.time, first_row, t, steps, valid, at);
      });
    }
#pragma unroll 1
    for (; t < stop; ++t) {
      ItemGates gate;
      if (computes) {
        cp_async_wait<Plan::kNumStages - 1>();
        __syncwarp();
        items.start(gate, inputs.stage(stage_idx));
        items.read_resets(inputs.stage(stage_idx));
        items.unweighted.load(a, inputs.time, t + 1, steps);
      }
      if constexpr (Cell::kSources > 0) {
        Product product;
        repeat<Weights::kTiles>([&](int tile) { product[tile].clear(); });
        seed(product, gate, split);
        const u32 buffer = (t & 1) * kBufferBytes;
        const u32 words_at = launder(fragments + buffer);
        mbarrier_wait(barriers + (t & 1) * 8, t >> 1 & 1, Wait{watchdog, t, kNoStep});
        weights.multiply(product, [&](int source, int k_tile) {
          return ld_shared_v4(words_at + source * StateExchange::kBytes +
                              k_tile * StateExchange::kRowsKTileBytes);
        });
        Totals total;
        add_partials(total, product, shared, group, split, lane, computes);
        finish_gates(gate, total);
      }
      if (computes) {
        Items::PerItem<States> next;
        Words words;
        const auto compute = [&](auto& sigmoid) { items.compute(gate, next, sigmoid); };
        with_sigmoid<true>(compute, [&] { items.collect(words, next, lane); });
        items.for_each([&](int i, int j) { assign(items.state[i][j], next[i][j]); });
        if (t + 1 < steps) state_push.publish(words);
        // While h is in flight: thread 0 announces the bytes of step t + 2, results are stored, and
        // a later input is copied into the stage of this step's.
        if (Cell::kSources > 0 && is_leader)
          mbarrier_arrive_expect_tx(barriers + (t & 1) * 8, kPushedBytes);
        handover.publish(a, t - 1);
        items.store_step(a);
        items.masks.advance();
        __syncwarp();
        inputs.prefetch(a, t + Plan::kNumStages, stage_idx, handover);
      }
      stage_idx = next_stage<Plan::kNumStages>(stage_idx);
    }
  } while (kMasked && t < steps);
  if (computes) {
    handover.publish(a, steps - 1);
    items.at_rows(
        [&](const auto& valid, const auto& at) { items.store_last(a, steps, valid, at); });
    if constexpr (kMasked) items.store_zeros(a, steps);
  }
  cluster_sync();
}

RNNC_INLINE void run(const ForwardArguments& a) {
  in_order(a.first_head + blockIdx.y, a.heads, [&](const Order& order) { run_head(a, order); });
}

}  // namespace rnnc::cluster_forward
