// All steps of one head and some batch rows in one block: R in registers, h through shared memory.
//
// A warp owns kUnitGroups groups of 8 units. Rows of R are interleaved by gates: the two halves of
// an m16 tile are 8 units of one gate and 8 units of the next, so that a thread's accumulators hold
// all gates of unit lane / 4 of each group and of columns 2q and 2q + 1, q = lane % 4. The states
// stay in that thread's registers; only what a dense gate reads goes to shared memory, where one
// barrier a step makes it whole.
//
// With kThreadRows = 1 the odd columns stay empty: a block has 4 batch rows and half the pointwise
// work, and there are twice as many blocks.
#pragma once

namespace rnnc {

constexpr int kDimChunks = ceil_div(kHeadDim, kChunk);
using StateExchange = Exchange<kDimChunks * kChunk>;
constexpr int kForwardBuffer = kSources * StateExchange::kBytes;
using InputCopy = RowCopy<kInputGates, 32 * kForwardWarps>;
constexpr int kForwardShared = 2 * kForwardBuffer + kForwardAhead * InputCopy::kBytes;
static_assert(kForwardShared == kPlannedForwardShared, "the plan counted another size");

// Halves of tiles (group, pair) of a source; an odd one is filled with zeros.
RNNC_CONSTEXPR int forward_halves(int source) { return kUnitGroups * kSourcePairs[source]; }
RNNC_CONSTEXPR int forward_first_tile(int source) {
  int tiles = 0;
  for (int i = 0; i < source; ++i) tiles += ceil_div(forward_halves(i), 2);
  return tiles;
}
constexpr int kForwardTiles = at_least_one(forward_first_tile(kSources));
// Two for a single tile, and for float32, where three instructions and an addition wait in a row.
constexpr int kForwardChains = kForwardTiles == 1 || kPack == 1 ? 2 : 1;

// body(pair, group, tile, half): where the sums of each pair of gate and source are, for each group.
template <typename Body>
RNNC_INLINE void for_halves(const Body& body) {
  unroll<kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    unroll<forward_halves(source)>([&](auto index) {
      constexpr int i = decltype(index)::value, pairs = kSourcePairs[source];
      body(Index<kSourceFirstPair[source] + i % pairs>{}, Index<i / pairs>{},
           Index<forward_first_tile(source) + i / 2>{}, Index<i % 2>{});
    });
  });
}

// The part of R that a warp multiplies, as fragments.
struct ForwardWeights {
  u32 fragment[kDimChunks][2][kForwardTiles][4];
  Rounding rounding;

  RNNC_MEMBER void load(const Element* R, int64 heads, int64 head, int first_unit, int lane) {
    const int quad = lane & 3, row = lane >> 2;
    rounding.begin();
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      unroll<ceil_div(forward_halves(source), 2)>([&](auto tile_index) {
        constexpr int tile = decltype(tile_index)::value;
#pragma unroll
        for (int chunk = 0; chunk < kDimChunks; ++chunk) {
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            const Element* matrix_of[4];
            int from[4], k[4];
            bool given[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // word i / 2 of the step's two, half i % 2 of the tile
              const int half = 2 * tile + i % 2, group = half / kSourcePairs[source];
              const int unit = first_unit + 8 * group + row;
              k[i] = chunk * kChunk + (quad * 4 + 2 * step + i / 2) * kPack;
              given[i] = half < forward_halves(source) && unit < kHeadDim;
              const int pair = kSourceFirstPair[source] + half % kSourcePairs[source];
              const int matrix = given[i] ? kPairMatrix[pair] : 0;
              matrix_of[i] = R + (matrix * heads + head) * (kHeadDim * kHeadDim);
              from[i] = unit * kHeadDim;
            }
            load_weights(fragment[chunk][step][forward_first_tile(source) + tile], matrix_of, from,
                         k, given, rounding);
          }
          __syncthreads();  // for the compiler, which moves no load across it
        }
      });
    });
    rounding.settle();
  }
};

RNNC_INLINE void block_forward(const ForwardArguments& a) {
  extern __shared__ __align__(128) char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * kBlockRows;
  const int first_unit = warp * 8 * kUnitGroups;

  ForwardWeights weights;
  weights.load(a.R, a.heads, head, first_unit, lane);

  // The items of this thread: (group, j) is unit first_unit + 8 group + lane / 4 and column
  // 2 quad + j, which holds batch row first_row + kThreadRows quad + j. Where there is no such unit
  // or row, the thread computes another item's values and stores none.
  const int steps = static_cast<int>(a.steps);
  const int unit = held(first_unit + (lane >> 2));
  const int64 plane = a.heads * kHeadDim, row = first_row + kThreadRows * quad;
  constexpr bool whole = kHeadDim % (8 * kUnitGroups) == 0;
  // An address is a uniform pointer and one of these offsets, in bytes.
  int64 at[kThreadRows];
  const int64 rows_left = a.batch - row;
  const int given_rows = held(rows_left < 1 ? 0 : rows_left < kThreadRows ? 1 : kThreadRows);
#pragma unroll
  for (int j = 0; j < kThreadRows; ++j) {
    const int64 real_row = j < given_rows ? row + j : 0;
    const int64 place = head * kHeadDim + (whole || unit < kHeadDim ? unit : 0);
    at[j] = opaque((real_row * plane + place) * int64{sizeof(Element)});
  }
  // The same for the units of a group, which are neighbours: without a last group, the first's.
  bool given[kUnitGroups][kThreadRows];
  int group_units[kUnitGroups];
  int slot[kUnitGroups][kThreadRows];  // in an exchange buffer, in bytes
  int input_place[kUnitGroups][kThreadRows];
  real param[kUnitGroups][at_least_one(kParams)];
  real diagonal[kUnitGroups][at_least_one(kDiagonalPairs)];
  real bias[kUnitGroups][at_least_one(kGates)], state[kUnitGroups][kThreadRows][kStates];
#pragma unroll
  for (int group = 0; group < kUnitGroups; ++group) {
    const bool exists = whole || unit + 8 * group < kHeadDim;
    group_units[group] = whole || unit + 8 * group < kHeadDim ? 8 * group : 0;
    const int64 own = head * kHeadDim + (exists ? unit + 8 * group : 0);
#pragma unroll
    for (int g = 0; g < kGates; ++g) bias[group][g] = 0;
#pragma unroll
    for (int i = 0; i < kBiasGates; ++i) {
      if (a.bias) bias[group][kBias[i]] = to_real(a.bias[i * plane + own]);
    }
#pragma unroll
    for (int i = 0; i < kParams; ++i) param[group][i] = to_real(a.params[i][own]);
#pragma unroll
    for (int i = 0; i < kDiagonalPairs; ++i) diagonal[group][i] = to_real(a.R_diag[i * plane + own]);
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
      given[group][j] = exists && j < given_rows;
      slot[group][j] = opaque(StateExchange::offset(2 * quad + j, unit + 8 * group));
      input_place[group][j] =
          opaque(InputCopy::place(kThreadRows * quad + j, whole || exists ? unit + 8 * group : 0));
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        state[group][j][s] = to_real(*element_at(a.initial[s] + group_units[group], at[j]));
      }
    }
  }

  // Padding in K and absent rows stay zero throughout.
  for (int i = threadIdx.x; i < 2 * kForwardBuffer / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  const auto publish = [&](char* buffer, const real (&states)[kUnitGroups][kThreadRows][kStates]) {
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          if (given[group][j]) {
            *reinterpret_cast<Element*>(buffer + source * StateExchange::kBytes + slot[group][j]) =
                to_element<Element>(states[group][j][kSourceState[source]]);
          }
        }
      }
    }
  };
  publish(shared, state);

  // wx of the next steps, on its way: a step is shorter than a round trip to memory.
  InputCopy input;
  input.prepare(first_row, a.batch);
  const Element* next_input = a.wx + head * kHeadDim * kInputGates;
  char* const inputs = shared + 2 * kForwardBuffer;
  const auto fetch = [&](int t, int stage) {
    if (t < steps) {
      input.issue(inputs + stage * InputCopy::kBytes, next_input, a.wx_row);
      next_input += a.wx_time;
    }
    commit_copies();
  };
#pragma unroll 1
  for (int stage = 0; stage < kForwardAhead; ++stage) fetch(stage, stage);
  wait_copies<kForwardAhead - 2>();
  __syncthreads();

  // What the gates of the next step are without the product: ready ahead of h, with which the sums of
  // two-byte elements begin.
  real rest[kUnitGroups][kThreadRows][at_least_one(kGates)];
  const auto read_inputs = [&](int stage) {
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        const auto x = InputCopy::read(inputs + stage * InputCopy::kBytes, input_place[group][j]);
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          rest[group][j][g] = bias[group][g];
          if (g < kInputGates) rest[group][j][g] += x[g];
          rest[group][j][g] = here(rest[group][j][g]);
        }
      }
    }
  };
  const auto add_diagonal = [&]() {
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
        for (int n = 0; n < kDiagonalPairs; ++n) {
          const int i = kDiagonalOrder[n];
          rest[group][j][kDiagonalGate[i]] +=
              diagonal[group][i] * state[group][j][kDiagonalSource[i]];
        }
      }
    }
  };
  read_inputs(0);
  add_diagonal();
  __syncthreads();

  const int64 step_size = a.batch * plane;
  real kept[kUnitGroups][kThreadRows][at_least_one(kSaved)];
  int64 now = 0;  // offset into [T, B, N, D] of the step whose results are stored next
  const auto store = [&]() {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (!a.states[s]) continue;
      Element* to = a.states[s] + now;
#pragma unroll
      for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          Row<Element, 1> row;
          row.set({state[group][j][s]});
          if (given[group][j]) row.store(element_at(to + 8 * group, at[j]));
        }
      }
    }
    if (kSaved && a.kept) {
      Element* to = a.kept + now * kSaved;
#pragma unroll
      for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          Row<Element, kSaved> row;
          row.set(kept[group][j]);
          if (given[group][j]) row.store(element_at(to + 8 * group * kSaved, at[j] * kSaved));
        }
      }
    }
    now += step_size;
  };

  const int fragment = opaque(StateExchange::first_fragment(lane));
  int stage = 0, buffer = 0;
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    Sums<kForwardChains> sum[kForwardTiles];
#pragma unroll
    for (int tile = 0; tile < kForwardTiles; ++tile) sum[tile].clear();
    for_halves([&](auto pair_index, auto group_index, auto tile_index, auto half_index) {
      constexpr int pair = decltype(pair_index)::value, group = decltype(group_index)::value;
      if constexpr (kSeeded && first_of_gate(pair)) {
        auto& part = sum[decltype(tile_index)::value].part[0];
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          part[2 * decltype(half_index)::value + j] = rest[group][j][kPairGate[pair]];
        }
      }
    });
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      constexpr int first_tile = forward_first_tile(source);
      const char* const states = shared + buffer + source * StateExchange::kBytes;
      for_chunks<kDimChunks>(
          [&](int chunk) { return StateExchange::load(states, fragment, chunk); },
          [&](auto index, uint4 h) {
            constexpr int chunk = decltype(index)::value;
            unroll<ceil_div(forward_halves(source), 2)>([&](auto tile_index) {
              constexpr int tile = first_tile + decltype(tile_index)::value;
              sum[tile].template add<0>(weights.fragment[chunk][0][tile], h.x, h.y,
                                        weights.rounding);
            });
            unroll<ceil_div(forward_halves(source), 2)>([&](auto tile_index) {
              constexpr int tile = first_tile + decltype(tile_index)::value;
              sum[tile].template add<1>(weights.fragment[chunk][1][tile], h.z, h.w,
                                        weights.rounding);
            });
          });
    });
    // While the product runs: the results of the last step leave, and a later input is sent for, into
    // the place of this step's.
    if (t > 0) store();
    fetch(t + kForwardAhead, stage);
    wait_copies<kForwardAhead - 2>();
    stage = stage + 1 < kForwardAhead ? stage + 1 : 0;

    real gate[kUnitGroups][kThreadRows][at_least_one(kGates)];
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) assign(gate[group][j], rest[group][j]);
    }
    for_halves([&](auto pair_index, auto group_index, auto tile_index, auto half_index) {
      constexpr int pair = decltype(pair_index)::value, group = decltype(group_index)::value;
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        const float own =
            sum[decltype(tile_index)::value].total(2 * decltype(half_index)::value + j);
        real& all = gate[group][j][kPairGate[pair]];
        all = kSeeded && first_of_gate(pair) ? own : all + own;
      }
    });
    read_inputs(stage);
    buffer ^= kForwardBuffer;
    real next[kUnitGroups][kThreadRows][kStates];
    const auto compute = [&](auto& sigmoid) {
#pragma unroll
      for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          step_forward(gate[group][j], state[group][j], param[group], next[group][j],
                       kept[group][j], sigmoid);
        }
      }
    };
    with_sigmoid<true>(compute, [&] { publish(shared + buffer, next); });
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) assign(state[group][j], next[group][j]);
    }
    add_diagonal();
    __syncthreads();
  }
  if (steps > 0) store();
#pragma unroll
  for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (given[group][j]) {
          *element_at(a.last[s] + 8 * group, at[j]) = to_element<Element>(state[group][j][s]);
        }
      }
    }
  }
}

}  // namespace rnnc
