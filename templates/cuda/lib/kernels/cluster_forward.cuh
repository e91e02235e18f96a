// Forward kernel of a cluster plan: a cluster of blocks runs all steps of one head and 8 batch
// rows, with R in registers; each block pushes h to its peers.
//
// A block owns kUnits units. Rows of R are interleaved by gate: the two halves of an m16 tile are 8
// units of one gate and the same units of the next. So a thread's accumulators hold all gates of
// unit lane / 4, for columns 2q and 2q + 1, q = lane % 4. kSplits warps share K of the same units
// and add their partials through shared memory; then each of the first two warps takes one of the
// columns.
//
// Every block has all of h, of 8 rows, in two buffers with an mbarrier each. Step t reads buffer t
// % 2 once its mbarrier has counted all bytes of h, and pushes its results to buffer (t + 1) % 2 of
// every block. There is no other synchronisation between blocks:
//
// - A buffer is not overwritten while it is read. A warp that pushes at step t has waited for all
// of step
//   t's h, a part of which came from each warp of each peer. Those warps pushed their part at step
//   t - 1 after their reads of buffer (t - 1) % 2, which step t's pushes overwrite; with kSplits >
//   1 they also passed the barrier that follows the reads of the other warps of the same units.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
// the
//   bytes of one step's h, and by the argument above bytes of a later step cannot come before. They
//   may come before their own announcement, which then finds them already counted.
// - No warp misses a phase. The phase of step t + 2 cannot complete before this block has pushed at
// step
//   t + 1, which is after all of its warps have seen the phase of step t complete.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/exchange/state_push.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::cluster_forward {

RNNC_INLINE void run(const ForwardArguments& a) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int group = warp / kSplits, split = warp % kSplits;
  // Whether this warp has items; the other warps only compute partials.
  const bool computes = kSplits <= 2 || split < 2;
  // NOTE: laundered, so that it stays in registers: a kernel argument would be loaded again in each
  // wait.
  const int64 watchdog = launder(a.watchdog);
  const u32 rank = cluster_ctarank(), shared_begin = pin(shared_address(rnnc::shared));
  char* const shared = shared_pointer(shared_begin);
  const u32 barriers = shared_begin + kBarriersOffset;
  const int64 head = a.first_head + blockIdx.y, first_row = (a.first_tile + blockIdx.z) * kColumns;
  const int first_unit = static_cast<int>(rank) * kUnits + group * kGroupUnits;
  const int unit = first_unit + (lane >> 2);

  Weights weights;
  weights.load(a.R, a.heads, head, unit, split * kSplitKTiles, lane);

  for (int i = threadIdx.x; i < kSharedBytes / 4; i += 32 * kWarps) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_pair_init(barriers);

  // Item i of a thread is unit first_unit + lane / 4 and column 2 quad + i, or 2 quad + split,
  // which is the batch row that far from the first. If there is no such unit or row, the thread
  // computes another item's values and stores none; for a unit that does not exist it pushes zeros.
  const int steps = static_cast<int>(a.steps);
  const bool is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
  const bool exists = kCluster * kUnits == kHeadDim || unit < kHeadDim;
  const int64 plane = a.heads * kHeadDim, real_unit = head * kHeadDim + (exists ? unit : 0);
  const int first_column = kItems == 2 ? 0 : split & 1;
  const int64 item_row = first_row + 2 * quad + first_column;
  // How many of this thread's items, the first ones, have results to store.
  const int valid_items = pin(!exists || item_row >= a.batch ? 0 : item_row + 1 < a.batch ? 2 : 1);
  int64 offset_bytes[kItems];  // an address is a uniform pointer and this offset, in bytes
  int input_offset[kItems];
  Gates bias;
  Params param;
  Diagonal diagonal;
  States state[kItems];
  load_bias(bias, a, plane, real_unit);
  load_unit_weights(param, diagonal, a, plane, real_unit);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64 row = item_row + i;
    offset_bytes[i] =
        launder(((row < a.batch ? row : 0) * plane + real_unit) * int64{sizeof(Element)});
    input_offset[i] = launder(InputCopy::offset(kItems * quad + i, exists ? lane >> 2 : 0));
#pragma unroll
    for (int s = 0; s < kStates; ++s)
      state[i][s] = to_real(*element_at(a.initial_states[s], offset_bytes[i]));
  }

  StatePush state_push;
  state_push.prepare(shared_begin, rank, first_unit, split & 1, lane);
  // h of all sources, as the words to push.
  using Words = u32[at_least_one(kSources)][4];
  const auto collect = [&](Words& words, const real(&states)[kItems][kStates]) {
#pragma unroll
    for (int source = 0; source < kSources; ++source) {
      real value[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        value[i] = exists ? states[i][kSourceState[source]] : real(0);
      }
      StatePush::collect(Element{}, words[source], value, lane);
    }
  };
  // Pushes to all blocks.
  const auto publish = [&](const Words& words) {
#pragma unroll
    for (int source = 0; source < kSources; ++source) state_push.send(words[source], source);
    state_push.swap_buffers();
  };

  // Copies wx of later steps: a step is shorter than a round trip to memory.
  InputCopy::Pieces input_pieces;
  input_pieces.prepare(lane, first_unit, first_row + first_column, kItems == 2 ? 1 : 2, a.batch);
  InputCopy input;
  input.start(input_pieces, a.wx + head * kHeadDim * kInputGates, a.wx_row);
  const int input_warp = kSplits == 1 ? group : group * 2 + (split & 1);
  char* const inputs =
      shared_pointer(pin(shared_begin + kInputsOffset + input_warp * InputCopy::kBytes));
  const auto prefetch = [&](int t, int stage) {
    if (t < steps) {
      input.issue(input_pieces, inputs + stage * kStageBytes);
      input.advance(a.wx_time);
    }
    cp_async_commit();
  };

  const int64 t_stride_bytes = a.batch * plane * int64{sizeof(Element)};
  real saved[kItems][at_least_one(kSaved)];
  int64 t_offset_bytes[kItems];  // in [T, B, N, D], at the step whose results are stored next
#pragma unroll
  for (int i = 0; i < kItems; ++i) t_offset_bytes[i] = offset_bytes[i];
  const auto store = [&]() {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (!a.states[s]) continue;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const auto vec = pack_state(state[i][s]);
        if (i < valid_items) vec.store(element_at(a.states[s], t_offset_bytes[i]));
      }
    }
    if (kSaved && a.saved) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const auto vec = pack_saved(saved[i]);
        if (i < valid_items) vec.store(element_at(a.saved, t_offset_bytes[i] * kSaved));
      }
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) t_offset_bytes[i] += t_stride_bytes;
  };

  cluster_sync();
  if (is_leader) mbarrier_pair_expect_tx(barriers, kPushedBytes);
  if (computes && steps > 0) {
    Words words;
    collect(words, state);
    publish(words);
#pragma unroll 1
    for (int stage = 0; stage < kNumStages; ++stage) prefetch(stage, stage);
  }

  const u32 fragments = pin(shared_begin + StateExchange::first_fragment(lane) +
                            split * kSplitKTiles * StateExchange::kRowsKTileBytes);
  int stage_idx = 0;
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    // The gates without the product.
    real gate[kItems][at_least_one(kGates)];
    if (computes) {
      cp_async_wait<kNumStages - 1>();
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const auto x = InputCopy::read(inputs + stage_idx * kStageBytes, input_offset[i]);
        start_gates(gate[i], bias, x);
        add_diagonal(gate[i], diagonal, state[i]);
      }
    }
    if constexpr (kSources > 0) {
      Accumulator<kNumAccumulators> product[kTiles];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) product[tile].clear();
      Tiles::for_pairs([&](auto pair_index, auto, auto tile_index, auto half_index) {
        constexpr int pair = decltype(pair_index)::value, half = decltype(half_index)::value;
        if constexpr (kSeeded && first_of_gate(pair)) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float seed = gate[i % kItems][kPairGate[pair]];
            product[decltype(tile_index)::value].part[0][2 * half + i] =
                launder(kItems == 2 || split == i ? seed : 0.0f);
          }
        }
      });
      const u32 buffer = (t & 1) * kBufferBytes;
      const u32 words_at = launder(fragments + buffer);
      mbarrier_wait(barriers + (t & 1) * 8, t >> 1 & 1, Wait{watchdog, t, kNoStep});
      unroll<kSources>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        constexpr int first = Tiles::first_tile(source);
        for_k_tiles<kSplitKTiles>(
            [&](int k_tile) {
              return ld_shared_v4(words_at + source * StateExchange::kBytes +
                                  k_tile * StateExchange::kRowsKTileBytes);
            },
            [&](auto index, uint4 h) {
              constexpr int k_tile = decltype(index)::value;
              unroll<Tiles::tiles(source)>([&](auto tile_index) {
                constexpr int tile = first + decltype(tile_index)::value;
                product[tile].template add<2 * k_tile>(weights.fragment[k_tile][0][tile], h.x, h.y,
                                                       weights.rounding);
              });
              unroll<Tiles::tiles(source)>([&](auto tile_index) {
                constexpr int tile = first + decltype(tile_index)::value;
                product[tile].template add<2 * k_tile + 1>(weights.fragment[k_tile][1][tile], h.z,
                                                           h.w, weights.rounding);
              });
            });
      });
      Totals total;
      add_partials(total, product, shared, group, split, lane, computes);
      Tiles::for_pairs([&](auto pair_index, auto, auto tile_index, auto half_index) {
        constexpr int pair = decltype(pair_index)::value, half = decltype(half_index)::value;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          const float own = total[decltype(tile_index)::value][half][i];
          real& sum = gate[i][kPairGate[pair]];
          sum = kSeeded && first_of_gate(pair) ? own : sum + own;
        }
      });
    }
    if (computes) {
      real next[kItems][kStates];
      Words words;
      const auto compute = [&](auto& sigmoid) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          apply_pointwise_forward(gate[i], state[i], param, next[i], saved[i], sigmoid);
        }
      };
      with_sigmoid<true>(compute, [&] { collect(words, next); });
#pragma unroll
      for (int i = 0; i < kItems; ++i) assign(state[i], next[i]);
      if (t + 1 < steps) publish(words);
      // While h is in flight: thread 0 announces the bytes of step t + 2, results are stored, and a
      // later input is copied into the stage of this step's.
      if (kSources > 0 && is_leader)
        mbarrier_arrive_expect_tx(barriers + (t & 1) * 8, kPushedBytes);
      store();
      __syncwarp();
      prefetch(t + kNumStages, stage_idx);
    }
    stage_idx = stage_idx + 1 < kNumStages ? stage_idx + 1 : 0;
  }
  if (computes) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (i < valid_items)
          *element_at(a.last[s], offset_bytes[i]) = to_element<Element>(state[i][s]);
      }
    }
  }
  cluster_sync();
}

}  // namespace rnnc::cluster_forward
