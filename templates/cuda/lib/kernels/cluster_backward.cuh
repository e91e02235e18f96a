// All steps backwards of one head and 8 batch rows in a cluster of blocks: each block multiplies the
// gradients of its own units' gates by its rows of R, and pushes to each peer the sums for the
// peer's units.
//
// A block owns kBackwardUnits units. Its pointwise work is one (unit, column) a thread; the gradients
// of the gates meet in its own shared memory. The product has all units of the head as rows, in m16
// tiles that the warps share, and K runs over the own units of every pair (gate, source) of a source.
// A lane's four sums of a tile are one piece of 16 bytes in the shared memory of the block that owns
// the tile's units, where the sums of all blocks lie side by side and are added in a fixed order.
//
// The state before a step gets a gradient from the pointwise map, which is known at once, and one
// through R, which comes from the peers. Where the map is linear in the gradients of the states after
// it (kLinear), a thread computes, while the pushes are on their way, what it gives without them and
// what a unit of them would add; once they are there, one multiplication and addition finish each
// value. Where it is not, as with a gradient that is clipped, the map waits for them.
//
// Two buffers take turns, each with an mbarrier that counts the bytes of a step. Iteration i waits for
// what iteration i - 1 pushed into buffer (i - 1) % 2, and pushes into buffer i % 2:
//
// - A buffer is not overwritten while it is read. Who pushes at iteration i has passed its block's
//   barrier of that iteration, after all that iteration i - 1 pushed to the block had come; each peer
//   pushed its part after its own barrier of iteration i - 1, which follows all its reads of buffer
//   (i - 2) % 2, the one that iteration i's pushes go to.
// - A phase does not end early: it takes the arrival of this block's thread 0, who announces the bytes
//   of one iteration, and by the same argument none of a later one can come before.
// - No warp misses a phase: that of iteration i + 2 can not end before this block has pushed at that
//   iteration, which is after the barriers that all of its warps pass having seen the end of i's. A
//   warp without units waits for no phase, and passes the barriers.
// - A block does not leave while peers write to it: what was pushed has been waited for.
#pragma once

namespace rnnc {

RNNC_INLINE void cluster_backward(const BackwardArguments& a) {
  extern __shared__ __align__(128) char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 rank = cluster_rank(), shared_begin = shared_address(shared);
  const u32 barriers = shared_begin + kBackwardBarriers;
  const int64 head = a.first_head + blockIdx.y, first_row = (a.first_tile + blockIdx.z) * kColumns;
  const int block_unit = static_cast<int>(rank) * kBackwardUnits;
  // NOTE: opaque, so that it stays in registers: a constant is loaded anew in each wait.
  const int64 watchdog = opaque(a.watchdog);
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;

  // Tiles of this warp, the first of them for the own block, which is another one in each block: who
  // pushes at the same time pushes to different blocks.
  int tile[kTileSlots];
  u32 share[kTileSlots], owner[kTileSlots];  // where a lane's piece goes, and the memory it is in
#pragma unroll
  for (int slot = 0; slot < kTileSlots; ++slot) {
    const int turn = slot * kBackwardWarps + warp, of_block = turn % kBlockTiles;
    const int block = (turn / kBlockTiles + rank) % kBackwardCluster;
    tile[slot] = turn < kTiles ? block * kBlockTiles + of_block : kTiles;
    owner[slot] = peer_address(shared_begin, block);
    share[slot] = owner[slot] + kBackwardShares + rank * kShareBytes + (of_block * 32 + lane) * 16;
  }
  BackwardWeights weights;
  weights.load(shared, a.R, a.heads, head, block_unit, tile, lane);

  for (int i = threadIdx.x; i < kBackwardShared / 4; i += 32 * kBackwardWarps) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  if (threadIdx.x == 0) mbarriers_begin(barriers);

  // The items of this thread: of a tile's lane l and sum s, item 4 l + s, unit 2 (l / 4) + s / 2 and
  // column 2 (l % 4) + s % 2. So 32 items are 4 units of all columns. Where there is no such unit or
  // row, the thread computes another item's values and stores none.
  const int steps = static_cast<int>(a.steps);
  const bool leads = opaque(static_cast<int>(threadIdx.x)) == 0;
  const int own_unit = 2 * (lane >> 4) + (lane >> 1 & 1), column = (lane >> 2 & 3) * 2 + (lane & 1);
  const int64 row = first_row + column;
  const bool row_given = row < a.batch;
  constexpr bool whole = kWarpItems % kBackwardWarps == 0;
  bool active[kBackwardItems], given[kBackwardItems];  // there are such units; and such a row
  // An address is a uniform pointer and one of these offsets, in bytes: of [B, N, D], and of
  // [T, B, N, D] at the step whose results are stored next.
  int64 at[kBackwardItems], now[kBackwardItems];
  int unit[kBackwardItems], kept_place[kBackwardItems], state_place[kBackwardItems];
  real param[kBackwardItems][at_least_one(kParams)];
  real diagonal[kBackwardItems][at_least_one(kDiagonalPairs)];
  real after[kBackwardItems][kStates], d_state[kBackwardItems][kStates];
  real sums[kBackwardItems][at_least_one(kSums)] = {};
  // What a step reads, on its way some steps ahead.
  KeptCopy::Pieces kept_pieces[kBackwardItems];
  StateCopy::Pieces state_pieces[kBackwardItems];
  KeptCopy kept_copy[kBackwardItems];
  StateCopy before_copy[kBackwardItems][kStates], d_copy[kBackwardItems][kStates];
#pragma unroll
  for (int item = 0; item < kBackwardItems; ++item) {
    const int group = item * kBackwardWarps + warp;
    active[item] = whole || group < kWarpItems;
    unit[item] = group * kItemUnits + own_unit;  // of the block
    const bool exists = active[item] && block_unit + unit[item] < kHeadDim;
    given[item] = exists && row_given;
    const int64 own = head * kHeadDim + (exists ? block_unit + unit[item] : 0);
    at[item] = opaque(((row_given ? row : 0) * plane + own) * int64{sizeof(Element)});
    now[item] = at[item] + (steps - 1) * step_size * int64{sizeof(Element)};
    kept_place[item] = opaque(KeptCopy::place(column, exists ? own_unit : 0));
    state_place[item] = opaque(StateCopy::place(column, exists ? own_unit : 0));
    const int first = block_unit + group * kItemUnits;
    kept_pieces[item].prepare(lane, first, first_row, 1, a.batch);
    state_pieces[item].prepare(lane, first, first_row, 1, a.batch);
    const int64 last_step = (steps - 1) * step_size + head * kHeadDim;
    kept_copy[item].start(kept_pieces[item], a.kept + last_step * kSaved, plane * kSaved);
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      const Element* before =
          steps > 1 ? a.states[s] + (last_step - step_size) : a.initial[s] + head * kHeadDim;
      const Element* d_states =
          a.d_states[s] + (steps - 1) * a.d_states_time[s] + head * kHeadDim;
      before_copy[item][s].start(state_pieces[item], before, plane);
      d_copy[item][s].start(state_pieces[item], d_states, a.d_states_row[s]);
    }
#pragma unroll
    for (int i = 0; i < kParams; ++i) param[item][i] = to_real(a.params[i][own]);
#pragma unroll
    for (int i = 0; i < kDiagonalPairs; ++i) diagonal[item][i] = to_real(a.R_diag[i * plane + own]);
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      const Element* last = a.states[s] + (steps - 1) * step_size;
      after[item][s] = kReads[s] && steps > 0 ? to_real(*element_at(last, at[item])) : real(0);
      d_state[item][s] = a.d_last[s] ? to_real(*element_at(a.d_last[s], at[item])) : real(0);
    }
  }

  // A warp without an item of its own reads another's.
  const auto reads = [&](int stage, int item) {
    const int group = active[item] ? item * kBackwardWarps + warp : 0;
    return shared + kBackwardReads + stage * kBackwardStage + group * kItemBytes;
  };
  const auto fetch = [&](int t, int stage) {
    if (t >= 0) {
#pragma unroll
      for (int item = 0; item < kBackwardItems; ++item) {
        if (!active[item]) continue;
        char* to = reads(stage, item);
        kept_copy[item].issue(kept_pieces[item], to);
        kept_copy[item].advance(-step_size * kSaved);
        unroll<kStates>([&](auto index) {  // so that places are constants, and no loops that count
          constexpr int s = decltype(index)::value, before = before_place(s), d = d_place(s);
          if constexpr (kReads[s]) {
            before_copy[item][s].issue(state_pieces[item], to + before);
            before_copy[item][s].advance(-step_size);
            if (t == 1) {  // The state before the first step lies elsewhere.
              asm volatile("");  // a branch: its addresses are not computed in every step
              before_copy[item][s].start(state_pieces[item], a.initial[s] + head * kHeadDim, plane);
            }
          }
          if (a.d_states[s]) {
            d_copy[item][s].issue(state_pieces[item], to + d);
            d_copy[item][s].advance(-a.d_states_time[s]);
          }
        });
      }
    }
    commit_copies();
  };

  // The sums of all blocks for this thread's items, that iteration i - 1 pushed.
  const int first_share = threadIdx.x * static_cast<int>(sizeof(float));
  const auto receive = [&](int i, real (&received)[kBackwardItems][at_least_one(kSources)]) {
    if constexpr (kSources > 0) {
      if (!active[0]) return;
      const int buffer = (i - 1) & 1;
      const char* from =
          shared + here(static_cast<u32>(kBackwardShares + buffer * kSharesBuffer + first_share));
      mbarrier_await(barriers + buffer * 8, (i - 1) >> 1 & 1, Wait{watchdog, i, kNoStep});
#pragma unroll
      for (int item = 0; item < kBackwardItems; ++item) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          const char* parts =
              from + source * kBackwardCluster * kShareBytes + item * kBackwardWarps * 128;
          if (active[item]) received[item][source] = sum_shares<kBackwardCluster>(parts);
        }
      }
    }
  };

  cluster_sync();
  if (leads) mbarriers_expect(barriers, kSharesBuffer);
#pragma unroll 1
  for (int stage = 0; stage < kBackwardAhead; ++stage) fetch(steps - 1 - stage, stage);

  const int fragment = opaque(GradientExchange::first_fragment(lane));
  int stage = 0;
  const auto leave_sums = [&](int64 t) {
#pragma unroll
    for (int item = 0; item < kBackwardItems; ++item) {
      // Eight lanes hold the columns of one unit.
      const int64 own = head * kHeadDim + block_unit + unit[item];
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        real total = sums[item][k];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 4);
        total += __shfl_xor_sync(~0u, total, 8);
        sums[item][k] = 0;
        if (column == 0 && active[item] && block_unit + unit[item] < kHeadDim) {
          const int64 part = (a.first_tile + blockIdx.z) * kSums + k;
          leave_sum(a.sums + part * plane + own, total, t, a.steps);
        }
      }
    }
  };
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const int t = steps - 1 - i;
    char* const buffer = shared + (i & 1) * GradientExchange::kBytes;
    wait_copies<kBackwardAhead - 1>();
    __syncwarp();
    [[maybe_unused]] real before_map[kBackwardItems][at_least_one(kSources)] = {};
    if constexpr (!kLinear) {
      if (kSources > 0 && i > 0) receive(i, before_map);
    }
    real before[kBackwardItems][kStates];
    Gradients found[kBackwardItems], added[kBackwardItems][at_least_one(kSources)];
#pragma unroll
    for (int item = 0; item < kBackwardItems; ++item) {
      const char* const now = reads(stage, item);
      real kept[at_least_one(kSaved)];
      const auto kept_row = KeptCopy::read(now, kept_place[item]);
#pragma unroll
      for (int k = 0; k < kSaved; ++k) kept[k] = kept_row[k];
      unroll<kStates>([&](auto index) {
        constexpr int s = decltype(index)::value, before_at = before_place(s), d_at = d_place(s);
        before[item][s] =
            kReads[s] ? StateCopy::read(now + before_at, state_place[item])[0] : real(0);
        found[item].state[s] = d_state[item][s];
        if (a.d_states[s]) {
          found[item].state[s] += StateCopy::read(now + d_at, state_place[item])[0];
        }
      });
      if constexpr (!kLinear) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          found[item].state[kSourceState[source]] += before_map[item][source];
        }
      }
      step_backward(kept, before[item], after[item], param[item], found[item].state,
                    found[item].gate, found[item].param);
#pragma unroll
      for (int source = 0; kLinear && source < kSources; ++source) {
        Gradients& one = added[item][source];
#pragma unroll
        for (int s = 0; s < kStates; ++s) one.state[s] = s == kSourceState[source] ? 1 : 0;
        step_backward(kept, before[item], after[item], param[item], one.state, one.gate, one.param);
      }
    }
    if (kLinear && kSources > 0 && i > 0) {
      real received[kBackwardItems][at_least_one(kSources)];
      receive(i, received);
#pragma unroll
      for (int item = 0; item < kBackwardItems; ++item) {
        if (!active[item]) continue;
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          const Gradients& one = added[item][source];
          const real factor = received[item][source];
          const int from = kSourceState[source];
#pragma unroll
          for (int g = 0; g < kGates; ++g) {
            if (kReachesGate[from][g]) found[item].gate[g] += one.gate[g] * factor;
          }
#pragma unroll
          for (int s = 0; s < kStates; ++s) {
            if (kReachesState[from][s]) found[item].state[s] += one.state[s] * factor;
          }
#pragma unroll
          for (int p = 0; p < kParams; ++p) {
            if (kReachesParam[from][p]) found[item].param[p] += one.param[p] * factor;
          }
        }
      }
    }
#pragma unroll
    for (int item = 0; item < kBackwardItems; ++item) {
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
#pragma unroll
        for (int p = 0; p < kSourcePairs[source]; ++p) {
          const int k = BackwardK::first_chunk(source) * kChunk + p * kBackwardUnits + unit[item];
          if (given[item]) {
            *reinterpret_cast<Element*>(buffer + GradientExchange::offset(column, k)) =
                to_element<Element>(found[item].gate[kPairGate[kSourceFirstPair[source] + p]]);
          }
        }
      }
    }
    if constexpr (kSources > 0) {
      __syncthreads();
      Sums<kBackwardChains> sum[kTileSlots][at_least_one(kSources)];
#pragma unroll
      for (int slot = 0; slot < kTileSlots; ++slot) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) sum[slot][source].clear();
      }
      unroll<kSources>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        constexpr int first_chunk = BackwardK::first_chunk(source);
        for_chunks<BackwardK::chunks(source)>(
            [&](int chunk) { return GradientExchange::load(buffer, fragment, first_chunk + chunk); },
            [&](auto index, uint4 d) {
              constexpr int chunk = decltype(index)::value;
              unroll<kTileSlots>([&](auto slot_index) {
                constexpr int slot = decltype(slot_index)::value;
                const auto& own = weights.fragment[first_chunk + chunk][0][slot];
                sum[slot][source].template add<2 * chunk>(own, d.x, d.y, weights.rounding);
              });
              unroll<kTileSlots>([&](auto slot_index) {
                constexpr int slot = decltype(slot_index)::value;
                const auto& own = weights.fragment[first_chunk + chunk][1][slot];
                sum[slot][source].template add<2 * chunk + 1>(own, d.z, d.w, weights.rounding);
              });
            });
#pragma unroll
        for (int slot = 0; slot < kTileSlots; ++slot) {
          u32 words[4];
#pragma unroll
          for (int k = 0; k < 4; ++k) words[k] = __float_as_uint(sum[slot][source].total(k));
          const int place = (i & 1) * kSharesBuffer + source * kBackwardCluster * kShareBytes;
          if (kTiles % kBackwardWarps == 0 || tile[slot] < kTiles) {
            push(share[slot] + place, words, owner[slot] + kBackwardBarriers + (i & 1) * 8);
          }
        }
      });
      // Thread 0 announces the bytes of iteration i + 1, into the buffer that has just been read.
      if (i > 0 && leads) mbarrier_expect(barriers + ((i - 1) & 1) * 8, kSharesBuffer);
    }
    // While the sums are on their way: the results leave, and an earlier step's data is sent for, into
    // the place of this step's.
#pragma unroll
    for (int item = 0; item < kBackwardItems; ++item) {
      if (!active[item]) continue;
      real wx[at_least_one(kInputGates)], rest[at_least_one(kGates - kInputGates)];
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        (g < kInputGates ? wx[g] : rest[g - kInputGates]) = found[item].gate[g];
      }
      Row<Element, kInputGates> wx_row;
      wx_row.set(wx);
      Row<Element, kGates - kInputGates> rest_row;
      rest_row.set(rest);
      // Absent rows and units count for nothing, whatever the equations make of zeros.
      if (given[item]) {
        wx_row.store(element_at(a.d_wx, now[item] * kInputGates));
        rest_row.store(element_at(a.d_rest, now[item] * (kGates - kInputGates)));
#pragma unroll
        for (int k = 0; k < kBiasGates; ++k) sums[item][k] += found[item].gate[kBias[k]];
#pragma unroll
        for (int k = 0; k < kParams; ++k) sums[item][kBiasGates + k] += found[item].param[k];
#pragma unroll
        for (int k = 0; k < kDiagonalPairs; ++k) {
          sums[item][kBiasGates + kParams + k] +=
              found[item].gate[kDiagonalGate[k]] * before[item][kDiagonalSource[k]];
        }
      }
      now[item] -= step_size * int64{sizeof(Element)};
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        d_state[item][s] = found[item].state[s];
        after[item][s] = before[item][s];
      }
#pragma unroll
      for (int n = 0; n < kDiagonalPairs; ++n) {
        const int k = kDiagonalOrder[n];
        d_state[item][kDiagonalSource[k]] += diagonal[item][k] * found[item].gate[kDiagonalGate[k]];
      }
    }
    __syncwarp();
    fetch(t - kBackwardAhead, stage);
    stage = stage + 1 < kBackwardAhead ? stage + 1 : 0;
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) leave_sums(t);
    }
  }
  if constexpr (!kSumsInParts) leave_sums(0);

  if (kSources > 0 && steps > 0) {
    real received[kBackwardItems][at_least_one(kSources)];
    receive(steps, received);
#pragma unroll
    for (int item = 0; item < kBackwardItems; ++item) {
      if (!active[item]) continue;
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
        d_state[item][kSourceState[source]] += received[item][source];
      }
    }
  }
#pragma unroll
  for (int item = 0; item < kBackwardItems; ++item) {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (given[item]) {
        *element_at(a.d_initial[s], at[item]) = to_element<Element>(d_state[item][s]);
      }
    }
  }
  cluster_sync();
}

}  // namespace rnnc
