// All steps of one head and 8 batch rows in a cluster of blocks: R in registers, h pushed to the peers.
//
// A block owns kForwardUnits units. Rows of R are interleaved by gates: the two halves of an m16 tile
// are 8 units of one gate and the same units of the next, so that a thread's accumulators hold all
// gates of unit lane / 4 and of columns 2q and 2q + 1, q = lane % 4. kForwardSplits warps share K of
// the same units, and add their sums through shared memory; then each of the first two takes one of
// the columns.
//
// Every block has all of h, 8 rows of it, in two buffers that take turns, and an mbarrier for each.
// Step t reads buffer t % 2, when the mbarrier has counted all the bytes of h, and its results go to
// buffer (t + 1) % 2 of every block. There is no other agreement between blocks:
//
// - A buffer is not overwritten while it is read. Who pushes at step t has waited for all of step t's
//   h, a part of which came from each warp with units of each peer; such a warp pushed that part at
//   step t - 1 after its own reads of buffer (t - 1) % 2, the one that step t's pushes go to, and with
//   kForwardSplits > 1 after the barrier that follows the reads of the warps that share its units.
// - A phase does not end early: it takes the arrival of this block's thread 0, who announces the bytes
//   of one step's h, and bytes of a later step can not come before, by the argument above. They may
//   come before the announcement of their own phase, which then takes place with bytes already counted.
// - No warp misses a phase: that of step t + 2 can not end before this block has pushed at step t + 1,
//   which is after all of its warps have seen the end of step t's.
// - A block does not leave while peers write to it: what was pushed has been waited for.
#pragma once

namespace rnnc {

// body(pair, tile, half): where the sums of each pair of gate and source are.
template <typename Body>
RNNC_INLINE void for_pairs(const Body& body) {
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    unroll<kSourcePairs[source]>([&](auto own_index) {
      constexpr int own = decltype(own_index)::value;
      body(Index<kSourceFirstPair[source] + own>{}, Index<forward_first_tile(source) + own / 2>{},
           Index<own % 2>{});
    });
  });
}

RNNC_INLINE void cluster_forward(const ForwardArguments& a) {
  extern __shared__ __align__(128) char shared_memory[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int group = warp / kForwardSplits, split = warp % kForwardSplits;
  // Whether this warp has items: sums of columns, as opposed to sums for other warps alone.
  const bool computes = kForwardSplits <= 2 || split < 2;
  // NOTE: opaque, so that it stays in registers: a constant is loaded anew in each wait.
  const int64 watchdog = opaque(a.watchdog);
  const u32 rank = cluster_rank(), shared_begin = held(shared_address(shared_memory));
  char* const shared = shared_pointer(shared_begin);
  const u32 barriers = shared_begin + kForwardBarriers;
  const int64 head = a.first_head + blockIdx.y, first_row = (a.first_tile + blockIdx.z) * kColumns;
  const int first_unit = static_cast<int>(rank) * kForwardUnits + group * kGroupUnits;
  const int unit = first_unit + (lane >> 2);

  ForwardWeights weights;
  weights.load(a.R, a.heads, head, unit, split * kSplitChunks, lane);

  for (int i = threadIdx.x; i < kForwardShared / 4; i += 32 * kForwardWarps) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  if (threadIdx.x == 0) mbarriers_begin(barriers);

  // The items of this thread: i is unit first_unit + lane / 4 and column 2 quad + i, or 2 quad +
  // split, which is the batch row that far from the first. Where there is no such unit or row, the
  // thread computes another item's values and stores none; for such a unit it pushes zeros.
  const int steps = static_cast<int>(a.steps);
  const bool leads = opaque(static_cast<int>(threadIdx.x)) == 0;
  const bool exists = kForwardCluster * kForwardUnits == kHeadDim || unit < kHeadDim;
  const int64 plane = a.heads * kHeadDim, own = head * kHeadDim + (exists ? unit : 0);
  const int first_column = kForwardItems == 2 ? 0 : split & 1;
  const int64 own_row = first_row + 2 * quad + first_column;
  // Of this thread's items, so many first ones have results to store.
  const int given = held(!exists || own_row >= a.batch ? 0 : own_row + 1 < a.batch ? 2 : 1);
  int64 at[kForwardItems];  // an address is a uniform pointer and this offset, in bytes
  int input_place[kForwardItems];
  real bias[at_least_one(kGates)] = {}, param[at_least_one(kParams)];
  real diagonal[at_least_one(kDiagonalPairs)], state[kForwardItems][kStates];
#pragma unroll
  for (int i = 0; i < kBiasGates; ++i) {
    if (a.bias) bias[kBias[i]] = to_real(a.bias[i * plane + own]);
  }
#pragma unroll
  for (int i = 0; i < kParams; ++i) param[i] = to_real(a.params[i][own]);
#pragma unroll
  for (int i = 0; i < kDiagonalPairs; ++i) diagonal[i] = to_real(a.R_diag[i * plane + own]);
#pragma unroll
  for (int i = 0; i < kForwardItems; ++i) {
    const int64 row = own_row + i;
    at[i] = opaque(((row < a.batch ? row : 0) * plane + own) * int64{sizeof(Element)});
    input_place[i] = opaque(InputCopy::place(kForwardItems * quad + i, exists ? lane >> 2 : 0));
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[i][s] = to_real(*element_at(a.initial[s], at[i]));
  }

  StatePieces pieces;
  pieces.prepare(shared_begin, rank, first_unit, split & 1, lane);
  // h of all sources, as words that are ready to leave.
  using Words = u32[at_least_one(kSources)][4];
  const auto collect = [&](Words& words, const real (&states)[kForwardItems][kStates]) {
#pragma unroll
    for (int source = 0; source < kSources; ++source) {
      real value[kForwardItems];
#pragma unroll
      for (int i = 0; i < kForwardItems; ++i) {
        value[i] = exists ? states[i][kSourceState[source]] : real(0);
      }
      StatePieces::collect(Element{}, words[source], value, lane);
    }
  };
  // To all blocks.
  const auto publish = [&](const Words& words) {
#pragma unroll
    for (int source = 0; source < kSources; ++source) pieces.send(words[source], source);
    pieces.turn();
  };

  // wx of the next steps, on its way: a step is shorter than a round trip to memory.
  InputCopy::Pieces input_pieces;
  input_pieces.prepare(lane, first_unit, first_row + first_column, kForwardItems == 2 ? 1 : 2,
                       a.batch);
  InputCopy input;
  input.start(input_pieces, a.wx + head * kHeadDim * kInputGates, a.wx_row);
  const int own_inputs = kForwardSplits == 1 ? group : group * 2 + (split & 1);
  char* const inputs =
      shared_pointer(held(shared_begin + kForwardInputs + own_inputs * InputCopy::kBytes));
  const auto fetch = [&](int t, int stage) {
    if (t < steps) {
      input.issue(input_pieces, inputs + stage * kForwardStage);
      input.advance(a.wx_time);
    }
    commit_copies();
  };

  const int64 step_bytes = a.batch * plane * int64{sizeof(Element)};
  real kept[kForwardItems][at_least_one(kSaved)];
  int64 now[kForwardItems];  // the items' place in [T, B, N, D] at the step whose results are stored
#pragma unroll
  for (int i = 0; i < kForwardItems; ++i) now[i] = at[i];
  const auto store = [&]() {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (!a.states[s]) continue;
#pragma unroll
      for (int i = 0; i < kForwardItems; ++i) {
        Row<Element, 1> row;
        row.set({state[i][s]});
        if (i < given) row.store(element_at(a.states[s], now[i]));
      }
    }
    if (kSaved && a.kept) {
#pragma unroll
      for (int i = 0; i < kForwardItems; ++i) {
        Row<Element, kSaved> row;
        row.set(kept[i]);
        if (i < given) row.store(element_at(a.kept, now[i] * kSaved));
      }
    }
#pragma unroll
    for (int i = 0; i < kForwardItems; ++i) now[i] += step_bytes;
  };

  cluster_sync();
  if (leads) mbarriers_expect(barriers, kForwardPushed);
  if (computes && steps > 0) {
    Words words;
    collect(words, state);
    publish(words);
#pragma unroll 1
    for (int stage = 0; stage < kForwardAhead; ++stage) fetch(stage, stage);
  }

  // Where this lane's words begin.
  const u32 fragments = held(shared_begin + StateExchange::first_fragment(lane) +
                             split * kSplitChunks * StateExchange::kChunkBytes);
  int stage = 0;
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    // What the gates are without the product.
    real gate[kForwardItems][at_least_one(kGates)];
    if (computes) {
      wait_copies<kForwardAhead - 1>();
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kForwardItems; ++i) {
        const auto x = InputCopy::read(inputs + stage * kForwardStage, input_place[i]);
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          gate[i][g] = bias[g];
          if (g < kInputGates) gate[i][g] += x[g];
        }
#pragma unroll
        for (int n = 0; n < kDiagonalPairs; ++n) {
          const int d = kDiagonalOrder[n];
          gate[i][kDiagonalGate[d]] += diagonal[d] * state[i][kDiagonalSource[d]];
        }
      }
    }
    if constexpr (kSources > 0) {
      Sums<kForwardChains> sum[kForwardTiles];
#pragma unroll
      for (int tile = 0; tile < kForwardTiles; ++tile) sum[tile].clear();
      for_pairs([&](auto pair_index, auto tile_index, auto half_index) {
        constexpr int pair = decltype(pair_index)::value, half = decltype(half_index)::value;
        if constexpr (kSeeded && first_of_gate(pair)) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float own = gate[i % kForwardItems][kPairGate[pair]];
            sum[decltype(tile_index)::value].part[0][2 * half + i] =
                here(kForwardItems == 2 || split == i ? own : 0.0f);
          }
        }
      });
      const u32 buffer = (t & 1) * kForwardBuffer;
      const u32 place = here(fragments + buffer);
      mbarrier_await(barriers + (t & 1) * 8, t >> 1 & 1, Wait{watchdog, t, kNoStep});
      unroll<kSources>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        constexpr int first_tile = forward_first_tile(source);
        for_chunks<kSplitChunks>(
            [&](int chunk) {
              return load_shared(place + source * StateExchange::kBytes +
                                 chunk * StateExchange::kChunkBytes);
            },
            [&](auto index, uint4 h) {
              constexpr int chunk = decltype(index)::value;
              unroll<forward_tiles(source)>([&](auto tile_index) {
                constexpr int tile = first_tile + decltype(tile_index)::value;
                sum[tile].template add<2 * chunk>(weights.fragment[chunk][0][tile], h.x, h.y,
                                                  weights.rounding);
              });
              unroll<forward_tiles(source)>([&](auto tile_index) {
                constexpr int tile = first_tile + decltype(tile_index)::value;
                sum[tile].template add<2 * chunk + 1>(weights.fragment[chunk][1][tile], h.z, h.w,
                                                      weights.rounding);
              });
            });
      });
      // Each half of each tile, of this thread's columns.
      float total[kForwardTiles][2][kForwardItems];
      if constexpr (kForwardSplits == 1) {
#pragma unroll
        for (int i = 0; i < 4 * kForwardTiles; ++i) {
          total[i / 4][i / 2 % 2][i % kForwardItems] = sum[i / 4].total(i % 4);
        }
      } else {
        char* const parts = shared + 2 * kForwardBuffer +
                            group * 2 * (kForwardSplits - 1) * kPartBytes + lane * 8;
        unroll<2>([&](auto taker_index) {
          constexpr int taker = decltype(taker_index)::value;
          const int slot = taker * (kForwardSplits - 1) + split - (split > taker);
#pragma unroll
          for (int tile = 0; tile < kForwardTiles; ++tile) {
            const float2 both = {sum[tile].total(taker), sum[tile].total(2 + taker)};
            if (split == taker) {
              total[tile][0][0] = both.x;
              total[tile][1][0] = both.y;
            } else {
              *reinterpret_cast<float2*>(parts + slot * kPartBytes + tile * 256) = both;
            }
          }
        });
        // A barrier of the warps that share these units.
        asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(32 * kForwardSplits) : "memory");
        if (computes) {
#pragma unroll
          for (int other = 0; other < kForwardSplits - 1; ++other) {
#pragma unroll
            for (int tile = 0; tile < kForwardTiles; ++tile) {
              const int slot = split * (kForwardSplits - 1) + other;
              const float2 both =
                  *reinterpret_cast<const float2*>(parts + slot * kPartBytes + tile * 256);
              total[tile][0][0] += both.x;
              total[tile][1][0] += both.y;
            }
          }
        }
      }
      for_pairs([&](auto pair_index, auto tile_index, auto half_index) {
        constexpr int pair = decltype(pair_index)::value, half = decltype(half_index)::value;
#pragma unroll
        for (int i = 0; i < kForwardItems; ++i) {
          const float own = total[decltype(tile_index)::value][half][i];
          real& all = gate[i][kPairGate[pair]];
          all = kSeeded && first_of_gate(pair) ? own : all + own;
        }
      });
    }
    if (computes) {
      real next[kForwardItems][kStates];
      Words words;
      const auto compute = [&](auto& sigmoid) {
#pragma unroll
        for (int i = 0; i < kForwardItems; ++i) {
          step_forward(gate[i], state[i], param, next[i], kept[i], sigmoid);
        }
      };
      with_sigmoid<true>(compute, [&] { collect(words, next); });
#pragma unroll
      for (int i = 0; i < kForwardItems; ++i) assign(state[i], next[i]);
      if (t + 1 < steps) publish(words);
      // While h is on its way: thread 0 announces the bytes of step t + 2, results leave, and a later
      // input is sent for, into the place of this step's.
      if (kSources > 0 && leads) mbarrier_expect(barriers + (t & 1) * 8, kForwardPushed);
      store();
      __syncwarp();
      fetch(t + kForwardAhead, stage);
    }
    stage = stage + 1 < kForwardAhead ? stage + 1 : 0;
  }
  if (computes) {
#pragma unroll
    for (int i = 0; i < kForwardItems; ++i) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (i < given) *element_at(a.last[s], at[i]) = to_element<Element>(state[i][s]);
      }
    }
  }
  cluster_sync();
}

}  // namespace rnnc
