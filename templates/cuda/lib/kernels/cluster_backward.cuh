// Backward kernel of a cluster plan: a cluster of blocks runs all steps of one head and 8 batch
// rows. Each block multiplies the gradients of its own units' gates by its rows of R, and pushes to
// each peer the partials for the peer's units.
//
// A block owns kUnits units. Its pointwise work is one item (unit, column) per thread at a time;
// the gradients of the gates meet in its own shared memory. The product has all units of the head
// as rows, in m16 tiles that are divided over the warps, and K runs over the block's units of every
// pair (gate, source) of a source. A lane's four partials of a tile are one 16-byte piece in the
// shared memory of the block that owns the tile's units, where the partials of all blocks are added
// in a fixed order.
//
// The state before a step gets a gradient from the pointwise map, which is known at once, and one
// through R, which comes from the peers. If the map is linear in the gradients of the states after
// it (kLinear), a thread computes, while the pushes are in flight, its results without them and
// their derivative with respect to them; when they arrive, one multiply-add finishes each value. If
// it is not linear, as with a clipped gradient, the map waits for them.
//
// There are two buffers, with an mbarrier each that counts the bytes of a step. Iteration i waits
// for what iteration i - 1 pushed into buffer (i - 1) % 2, and pushes into buffer i % 2:
//
// - A buffer is not overwritten while it is read. A warp that pushes at iteration i has passed its
// block's
//   barrier of that iteration, after everything that iteration i - 1 pushed to the block had come.
//   Each peer pushed its part after its own barrier of iteration i - 1, which follows all its reads
//   of buffer (i - 2) % 2, which iteration i's pushes overwrite.
// - A phase does not complete early. It needs the arrival of this block's thread 0, which announces
// the
//   bytes of one iteration, and by the argument above none of a later iteration can come before.
// - No warp misses a phase. The phase of iteration i + 2 cannot complete before this block has
// pushed at
//   that iteration, which is after the barriers that all of its warps pass once they have seen
//   iteration i's phase complete. A warp without units waits for no phase, and passes the barriers.
// - A block does not exit while peers write to it: it has waited for everything that was pushed.
#pragma once

#include "lib/exchange/partial_push.cuh"
#include "lib/ptx/mbarrier.cuh"

namespace rnnc::cluster_backward {

RNNC_INLINE void run(const BackwardArguments& a) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 rank = cluster_ctarank(), shared_begin = shared_address(shared);
  const u32 barriers = shared_begin + kBarriersOffset;
  const int64 head = a.first_head + blockIdx.y, first_row = (a.first_tile + blockIdx.z) * kColumns;
  const int block_unit = static_cast<int>(rank) * kUnits;
  // NOTE: laundered, so that it stays in registers: a kernel argument would be loaded again in each
  // wait.
  const int64 watchdog = launder(a.watchdog);
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;

  PartialPush push;
  push.prepare(shared_begin, rank, warp, lane);
  Weights weights;
  weights.load(shared, a.R, a.heads, head, block_unit, push.tile, lane);

  for (int i = threadIdx.x; i < kSharedBytes / 4; i += 32 * kWarps) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_pair_init(barriers);

  // Partial s of lane l of a tile belongs to item 4 l + s: unit 2 (l / 4) + s / 2 and column 2 (l %
  // 4) + s % 2. So 32 items are 4 units of all columns. If there is no such unit or row, the thread
  // computes another item's values and stores none.
  const int steps = static_cast<int>(a.steps);
  const bool is_leader = launder(static_cast<int>(threadIdx.x)) == 0;
  const int item_unit = 2 * (lane >> 4) + (lane >> 1 & 1),
            column = (lane >> 2 & 3) * 2 + (lane & 1);
  const int64 row = first_row + column;
  const bool row_valid = row < a.batch;
  constexpr bool whole = kItemGroups % kWarps == 0;
  bool active[kItems], valid[kItems];  // the units exist; and the row does too
  // An address is a uniform pointer and one of these offsets, in bytes: into [B, N, D], and into
  // [T, B, N, D] at the step whose results are stored next.
  int64 offset_bytes[kItems], t_offset_bytes[kItems];
  int unit[kItems], saved_offset[kItems], state_offset[kItems];
  Params param[kItems];
  Diagonal diagonal[kItems];
  real after[kItems][kStates], d_state[kItems][kStates];
  GradientSums sums[kItems] = {};
  // Copies of what a step reads, several steps ahead.
  SavedCopy::Pieces saved_pieces[kItems];
  StateCopy::Pieces state_pieces[kItems];
  SavedCopy saved_copy[kItems];
  StateCopy before_copy[kItems][kStates], d_copy[kItems][kStates];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int group = item * kWarps + warp;
    active[item] = whole || group < kItemGroups;
    unit[item] = group * kItemUnits + item_unit;  // within the block
    const bool exists = active[item] && block_unit + unit[item] < kHeadDim;
    valid[item] = exists && row_valid;
    const int64 real_unit = head * kHeadDim + (exists ? block_unit + unit[item] : 0);
    offset_bytes[item] =
        launder(((row_valid ? row : 0) * plane + real_unit) * int64{sizeof(Element)});
    t_offset_bytes[item] = offset_bytes[item] + (steps - 1) * step_size * int64{sizeof(Element)};
    saved_offset[item] = launder(SavedCopy::offset(column, exists ? item_unit : 0));
    state_offset[item] = launder(StateCopy::offset(column, exists ? item_unit : 0));
    const int first = block_unit + group * kItemUnits;
    saved_pieces[item].prepare(lane, first, first_row, 1, a.batch);
    state_pieces[item].prepare(lane, first, first_row, 1, a.batch);
    const int64 last_step = (steps - 1) * step_size + head * kHeadDim;
    saved_copy[item].start(saved_pieces[item], a.saved + last_step * kSaved, plane * kSaved);
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      const Element* before =
          steps > 1 ? a.states[s] + (last_step - step_size) : a.initial_states[s] + head * kHeadDim;
      const Element* d_states = a.d_states[s] + (steps - 1) * a.d_states_time[s] + head * kHeadDim;
      before_copy[item][s].start(state_pieces[item], before, plane);
      d_copy[item][s].start(state_pieces[item], d_states, a.d_states_row[s]);
    }
    load_unit_weights(param[item], diagonal[item], a, plane, real_unit);
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      const Element* last = a.states[s] + (steps - 1) * step_size;
      after[item][s] =
          kReads[s] && steps > 0 ? to_real(*element_at(last, offset_bytes[item])) : real(0);
      d_state[item][s] =
          a.d_last[s] ? to_real(*element_at(a.d_last[s], offset_bytes[item])) : real(0);
    }
  }

  // A warp without an item reads another item's data.
  const auto reads = [&](int stage, int item) {
    const int group = active[item] ? item * kWarps + warp : 0;
    return shared + kReadsOffset + stage * kStageBytes + group * kItemBytes;
  };
  const auto prefetch = [&](int t, int stage) {
    if (t >= 0) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        if (!active[item]) continue;
        char* to = reads(stage, item);
        saved_copy[item].issue(saved_pieces[item], to);
        saved_copy[item].advance(-step_size * kSaved);
        unroll<kStates>([&](auto index) {  // so that offsets are constants
          constexpr int s = decltype(index)::value, before = before_offset(s),
                        d = d_after_offset(s);
          if constexpr (kReads[s]) {
            before_copy[item][s].issue(state_pieces[item], to + before);
            before_copy[item][s].advance(-step_size);
            if (t == 1) {        // the state before the first step is in another tensor
              asm volatile("");  // keeps the branch: its addresses are not computed in every step
              before_copy[item][s].start(state_pieces[item], a.initial_states[s] + head * kHeadDim,
                                         plane);
            }
          }
          if (a.d_states[s]) {
            d_copy[item][s].issue(state_pieces[item], to + d);
            d_copy[item][s].advance(-a.d_states_time[s]);
          }
        });
      }
    }
    cp_async_commit();
  };

  // The sums over all blocks for this thread's items, which iteration i - 1 pushed.
  const int first_partial = threadIdx.x * static_cast<int>(sizeof(float));
  const auto receive = [&](int i, real(&received)[kItems][at_least_one(kSources)]) {
    if constexpr (kSources > 0) {
      if (!active[0]) return;
      const int buffer_idx = (i - 1) & 1;
      const char* from =
          shared +
          launder(static_cast<u32>(kPartialsOffset + buffer_idx * kPartialsBytes + first_partial));
      mbarrier_wait(barriers + buffer_idx * 8, (i - 1) >> 1 & 1, Wait{watchdog, i, kNoStep});
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          const char* partials = from + source * kCluster * kPartialBytes + item * kWarps * 128;
          if (active[item]) received[item][source] = sum_partials<kCluster>(partials);
        }
      }
    }
  };

  cluster_sync();
  if (is_leader) mbarrier_pair_expect_tx(barriers, kPartialsBytes);
#pragma unroll 1
  for (int stage = 0; stage < kNumStages; ++stage) prefetch(steps - 1 - stage, stage);

  const int fragment = launder(GradientExchange::first_fragment(lane));
  int stage_idx = 0;
  const auto store_sums = [&](int64 t) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      // Eight lanes hold the columns of one unit.
      const int64 unit_offset = head * kHeadDim + block_unit + unit[item];
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        real total = sums[item][k];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 4);
        total += __shfl_xor_sync(~0u, total, 8);
        sums[item][k] = 0;
        if (column == 0 && active[item] && block_unit + unit[item] < kHeadDim) {
          const int64 part = (a.first_tile + blockIdx.z) * kSums + k;
          store_part_sum(a.sums + part * plane + unit_offset, total, t, a.steps);
        }
      }
    }
  };
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const int t = steps - 1 - i;
    char* const buffer = shared + (i & 1) * GradientExchange::kBytes;
    cp_async_wait<kNumStages - 1>();
    __syncwarp();
    [[maybe_unused]] real before_map[kItems][at_least_one(kSources)] = {};
    if constexpr (!kLinear) {
      if (kSources > 0 && i > 0) receive(i, before_map);
    }
    real before[kItems][kStates];
    Gradients found[kItems], added[kItems][at_least_one(kSources)];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const char* const stage = reads(stage_idx, item);
      real saved[at_least_one(kSaved)];
      unpack_saved(saved, SavedCopy::read(stage, saved_offset[item]));
      unroll<kStates>([&](auto index) {
        constexpr int s = decltype(index)::value, before_at = before_offset(s),
                      d_at = d_after_offset(s);
        before[item][s] =
            kReads[s] ? StateCopy::read(stage + before_at, state_offset[item])[0] : real(0);
        found[item].state[s] = d_state[item][s];
        if (a.d_states[s]) {
          found[item].state[s] += StateCopy::read(stage + d_at, state_offset[item])[0];
        }
      });
      if constexpr (!kLinear) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          found[item].state[kSourceState[source]] += before_map[item][source];
        }
      }
      apply_pointwise_backward(saved, before[item], after[item], param[item], found[item].state,
                               found[item].gate, found[item].param);
#pragma unroll
      for (int source = 0; kLinear && source < kSources; ++source) {
        Gradients& one = added[item][source];
#pragma unroll
        for (int s = 0; s < kStates; ++s) one.state[s] = s == kSourceState[source] ? 1 : 0;
        apply_pointwise_backward(saved, before[item], after[item], param[item], one.state, one.gate,
                                 one.param);
      }
    }
    if (kLinear && kSources > 0 && i > 0) {
      real received[kItems][at_least_one(kSources)];
      receive(i, received);
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        if (!active[item]) continue;
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          add_received(found[item], added[item][source], received[item][source],
                       kSourceState[source]);
        }
      }
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
#pragma unroll
        for (int p = 0; p < kSourcePairs[source]; ++p) {
          const int k = K::first_k_tile(source) * kKTile + p * kUnits + unit[item];
          if (valid[item]) {
            *reinterpret_cast<Element*>(buffer + GradientExchange::offset(column, k)) =
                to_element<Element>(found[item].gate[kPairGate[kSourceFirstPair[source] + p]]);
          }
        }
      }
    }
    if constexpr (kSources > 0) {
      __syncthreads();
      Product product;
#pragma unroll
      for (int warp_tile = 0; warp_tile < kWarpTiles; ++warp_tile) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) product[warp_tile][source].clear();
      }
      unroll<kSources>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        constexpr int first_k_tile = K::first_k_tile(source);
        for_k_tiles<K::k_tiles(source)>(
            [&](int k_tile) {
              return GradientExchange::load(buffer, fragment, first_k_tile + k_tile);
            },
            [&](auto index, uint4 d) {
              constexpr int k_tile = decltype(index)::value;
              unroll<kWarpTiles>([&](auto slot_index) {
                constexpr int warp_tile = decltype(slot_index)::value;
                const auto& fragment_of = weights.fragment[first_k_tile + k_tile][0][warp_tile];
                product[warp_tile][source].template add<2 * k_tile>(fragment_of, d.x, d.y,
                                                                    weights.rounding);
              });
              unroll<kWarpTiles>([&](auto slot_index) {
                constexpr int warp_tile = decltype(slot_index)::value;
                const auto& fragment_of = weights.fragment[first_k_tile + k_tile][1][warp_tile];
                product[warp_tile][source].template add<2 * k_tile + 1>(fragment_of, d.z, d.w,
                                                                        weights.rounding);
              });
            });
        push.send(product, source, i & 1);
      });
      // Thread 0 announces the bytes of iteration i + 1, into the buffer that has just been read.
      if (i > 0 && is_leader)
        mbarrier_arrive_expect_tx(barriers + ((i - 1) & 1) * 8, kPartialsBytes);
    }
    // While the partials are in flight: store the results, and copy an earlier step's data into the
    // stage of this step's.
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (!active[item]) continue;
      Vec<Element, kInputGates> d_wx;
      Vec<Element, kGatesNoInput> d_no_input;
      pack_gates(d_wx, d_no_input, found[item].gate);
      // Rows and units that do not exist add nothing, whatever the equations give for zeros.
      if (valid[item]) {
        d_wx.store(element_at(a.d_wx, t_offset_bytes[item] * kInputGates));
        d_no_input.store(element_at(a.d_gates_no_input, t_offset_bytes[item] * kGatesNoInput));
        add_to_sums(sums[item], found[item].gate, found[item].param, before[item]);
      }
      t_offset_bytes[item] -= step_size * int64{sizeof(Element)};
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        d_state[item][s] = found[item].state[s];
        after[item][s] = before[item][s];
      }
      add_diagonal_gradient(d_state[item], diagonal[item], found[item].gate);
    }
    __syncwarp();
    prefetch(t - kNumStages, stage_idx);
    stage_idx = stage_idx + 1 < kNumStages ? stage_idx + 1 : 0;
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) store_sums(t);
    }
  }
  if constexpr (!kSumsInParts) store_sums(0);

  if (kSources > 0 && steps > 0) {
    real received[kItems][at_least_one(kSources)];
    receive(steps, received);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (!active[item]) continue;
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
        d_state[item][kSourceState[source]] += received[item][source];
      }
    }
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (valid[item]) {
        *element_at(a.d_initial_states[s], offset_bytes[item]) =
            to_element<Element>(d_state[item][s]);
      }
    }
  }
  cluster_sync();
}

}  // namespace rnnc::cluster_backward
