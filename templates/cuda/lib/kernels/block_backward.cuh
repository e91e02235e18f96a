// All steps backwards of one head and some batch rows in one block: R transposed in registers, the
// gradients of the gates through shared memory.
//
// A warp owns 16 units, the rows of one m16 tile: a thread has the units lane / 4 and lane / 4 + 8
// and the columns 2q and 2q + 1, q = lane % 4. K runs over the units of every pair (gate, source) of
// a source. Gradients of biases, params and diagonal weights are summed over time in registers.
#pragma once

#include "lib/mma/backward_rows.cuh"

namespace rnnc {

constexpr int kWarpUnits = 16;
constexpr int kPaddedDim = round_up(kHeadDim, kWarpUnits);
using BackwardK = PairUnits<kPaddedDim>;
constexpr int kBackwardChunks = at_least_one(BackwardK::first_chunk(kSources));
using GradientExchange = Exchange<kBackwardChunks * kChunk>;
using KeptCopy = RowCopy<kSaved, 32 * kBackwardWarps>;
using StateCopy = RowCopy<1, 32 * kBackwardWarps>;
// What a step reads: kept values, the states before it, the gradients of the states after it.
constexpr int kStepBytes = KeptCopy::kBytes + 2 * kStates * StateCopy::kBytes;
constexpr int kBackwardShared = 2 * GradientExchange::kBytes + kBackwardAhead * kStepBytes;
static_assert(kBackwardShared == kPlannedBackwardShared, "the plan counted another size");
constexpr int kBackwardChains = kPack == 1 ? 2 : 4;

// The rows of R transposed that a warp multiplies. They come through shared memory, some chunks at a
// time: columns of R straight from memory would need an address for every two bytes.
struct BackwardWeights {
  static constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(Element));
  static constexpr int kChunkBytes = kChunk * kRowBytes;
  static constexpr int kStaged = smaller(kBackwardShared / kChunkBytes, kBackwardChunks);
  static_assert(kStaged > 0, "a chunk of R must fit the block's shared memory");

  u32 fragment[kBackwardChunks][2][4];
  Rounding rounding;

  RNNC_MEMBER void load(char* rows, const Element* R, int64 heads, int64 head, int first_unit,
                        int lane) {
    constexpr bool whole = kHeadDim % kWarpUnits == 0;
    const int quad = lane & 3, unit = first_unit + (lane >> 2);
    rounding.begin();
    if constexpr (kSources > 0) {
      unroll<ceil_div(kBackwardChunks, kStaged)>([&](auto index) {
        constexpr int first = decltype(index)::value * kStaged;
        BackwardK::stage<kStaged, kRowBytes, 32 * kBackwardWarps>(rows, R, heads, head, 0, first);
#pragma unroll
        for (int chunk = first; chunk < smaller(first + kStaged, kBackwardChunks); ++chunk) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {  // word i / 2 of the quad's four, half i % 2 of the tile
            const int k = (chunk - first) * kChunk + (quad * 4 + i / 2) * kPack;
            const bool exists = whole || unit + 8 * (i % 2) < kHeadDim;
            const int in = exists ? unit + 8 * (i % 2) : 0;
            u32 word;
            if constexpr (kPack == 1) {
              word = reinterpret_cast<const u32*>(rows)[k * kHeadDim + in];
            } else {
              const u16* halves = reinterpret_cast<const u16*>(rows) + k * kHeadDim + in;
              word = halves[0] | static_cast<u32>(halves[kHeadDim]) << 16;
            }
            fragment[chunk][i / 4][i / 2 % 2 * 2 + i % 2] = as_weight(exists ? word : 0u, rounding);
          }
        }
        __syncthreads();
      });
    }
    rounding.settle();
  }
};

RNNC_INLINE void block_backward(const BackwardArguments& a) {
  extern __shared__ __align__(128) char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * kBlockRows;
  const int first_unit = warp * kWarpUnits;
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;

  BackwardWeights weights;
  weights.load(shared, a.R, a.heads, head, first_unit, lane);

  // The items of this thread: (half, j) is unit first_unit + 8 half + lane / 4 and column
  // 2 quad + j, which holds batch row first_row + kThreadRows quad + j. Where there is no such unit
  // or row, the thread computes another item's values and stores none.
  const int steps = static_cast<int>(a.steps);
  const int unit = first_unit + (lane >> 2);
  const int64 row = first_row + kThreadRows * quad;
  constexpr bool whole = kHeadDim % kWarpUnits == 0;
  // An address is a uniform pointer and one of these offsets, in bytes.
  int64 at[kThreadRows];
  bool row_given[kThreadRows];
  const int64 place = head * kHeadDim + (whole || unit < kHeadDim ? unit : 0);
#pragma unroll
  for (int j = 0; j < kThreadRows; ++j) {
    row_given[j] = row + j < a.batch;
    at[j] = opaque(((row_given[j] ? row + j : 0) * plane + place) * int64{sizeof(Element)});
  }
  bool given[2][kThreadRows];
  int half_units[2], kept_place[2][kThreadRows], state_place[2][kThreadRows];
  real param[2][at_least_one(kParams)], diagonal[2][at_least_one(kDiagonalPairs)];
  real after[2][kThreadRows][kStates], d_state[2][kThreadRows][kStates];
  real sums[2][at_least_one(kSums)] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool exists = whole || unit + 8 * half < kHeadDim;
    half_units[half] = whole || exists ? 8 * half : 0;
    const int64 own = head * kHeadDim + (exists ? unit + 8 * half : 0);
#pragma unroll
    for (int i = 0; i < kParams; ++i) param[half][i] = to_real(a.params[i][own]);
#pragma unroll
    for (int i = 0; i < kDiagonalPairs; ++i) diagonal[half][i] = to_real(a.R_diag[i * plane + own]);
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
      given[half][j] = exists && row_given[j];
      const int own_unit = whole || exists ? unit + 8 * half : 0;
      kept_place[half][j] = opaque(KeptCopy::place(kThreadRows * quad + j, own_unit));
      state_place[half][j] = opaque(StateCopy::place(kThreadRows * quad + j, own_unit));
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        const Element* last = a.states[s] + (steps - 1) * step_size + half_units[half];
        after[half][j][s] = kReads[s] && steps > 0 ? to_real(*element_at(last, at[j])) : real(0);
        d_state[half][j][s] =
            a.d_last[s] ? to_real(*element_at(a.d_last[s] + half_units[half], at[j])) : real(0);
      }
    }
  }
  for (int i = threadIdx.x; i < 2 * GradientExchange::kBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }

  // What a step reads, on its way some steps ahead.
  KeptCopy kept_copy;
  StateCopy state_copy;
  kept_copy.prepare(first_row, a.batch);
  state_copy.prepare(first_row, a.batch);
  char* const reads = shared + 2 * GradientExchange::kBytes;
  const auto fetch = [&](int t, int stage) {
    if (t >= 0) {
      char* to = reads + stage * kStepBytes;
      const int64 here = t * step_size + head * kHeadDim;
      kept_copy.issue(to, a.kept + here * kSaved, plane * kSaved);
      to += KeptCopy::kBytes;
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (kReads[s]) {
          const Element* before = t > 0 ? a.states[s] + (here - step_size)
                                        : a.initial[s] + head * kHeadDim;
          state_copy.issue(to, before, plane);
        }
        to += StateCopy::kBytes;
        if (a.d_states[s]) {
          const Element* d_states = a.d_states[s] + t * a.d_states_time[s] + head * kHeadDim;
          state_copy.issue(to, d_states, a.d_states_row[s]);
        }
        to += StateCopy::kBytes;
      }
    }
    commit_copies();
  };
#pragma unroll 1
  for (int stage = 0; stage < kBackwardAhead; ++stage) fetch(steps - 1 - stage, stage);
  wait_copies<kBackwardAhead - 1>();
  __syncthreads();

  const int fragment = opaque(GradientExchange::first_fragment(lane));
  int stage = 0, exchange = 0;
  const auto leave_sums = [&](int64 t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // The four lanes of a quad hold the rows of one unit.
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        real total = sums[half][i];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        sums[half][i] = 0;
        if (quad == 0 && unit + 8 * half < kHeadDim) {
          const int64 part = (a.first_tile + blockIdx.y) * kSums + i;
          leave_sum(a.sums + part * plane + place + 8 * half, total, t, a.steps);
        }
      }
    }
  };
#pragma unroll 1
  for (int t = steps - 1; t >= 0; --t) {
    char* const buffer = shared + exchange;
    const char* const now = reads + stage * kStepBytes;
    real d_gate[2][kThreadRows][at_least_one(kGates)];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        real kept[at_least_one(kSaved)], before[kStates], d_param[at_least_one(kParams)];
        const auto kept_row = KeptCopy::read(now, kept_place[half][j]);
#pragma unroll
        for (int i = 0; i < kSaved; ++i) kept[i] = kept_row[i];
#pragma unroll
        for (int s = 0; s < kStates; ++s) {
          const char* const states = now + KeptCopy::kBytes + 2 * s * StateCopy::kBytes;
          before[s] = kReads[s] ? StateCopy::read(states, state_place[half][j])[0] : real(0);
          if (a.d_states[s]) {
            d_state[half][j][s] +=
                StateCopy::read(states + StateCopy::kBytes, state_place[half][j])[0];
          }
        }
        step_backward(kept, before, after[half][j], param[half], d_state[half][j],
                      d_gate[half][j], d_param);
#pragma unroll
        for (int n = 0; n < kDiagonalPairs; ++n) {
          const int i = kDiagonalOrder[n];
          d_state[half][j][kDiagonalSource[i]] +=
              diagonal[half][i] * d_gate[half][j][kDiagonalGate[i]];
        }
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
#pragma unroll
          for (int i = 0; i < kSourcePairs[source]; ++i) {
            const int k =
                BackwardK::first_chunk(source) * kChunk + i * kPaddedDim + unit + 8 * half;
            if (given[half][j]) {
              *reinterpret_cast<Element*>(buffer + GradientExchange::offset(2 * quad + j, k)) =
                  to_element<Element>(d_gate[half][j][kPairGate[kSourceFirstPair[source] + i]]);
            }
          }
        }
        // Absent rows and units count for nothing, whatever the equations make of zeros.
        if (given[half][j]) {
#pragma unroll
          for (int i = 0; i < kBiasGates; ++i) sums[half][i] += d_gate[half][j][kBias[i]];
#pragma unroll
          for (int i = 0; i < kParams; ++i) sums[half][kBiasGates + i] += d_param[i];
#pragma unroll
          for (int i = 0; i < kDiagonalPairs; ++i) {
            sums[half][kBiasGates + kParams + i] +=
                d_gate[half][j][kDiagonalGate[i]] * before[kDiagonalSource[i]];
          }
        }
#pragma unroll
        for (int s = 0; s < kStates; ++s) after[half][j][s] = before[s];
      }
    }
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) leave_sums(t);
    }
    wait_copies<kBackwardAhead - 2>();
    __syncthreads();

    Sums<kBackwardChains> sum[at_least_one(kSources)];
#pragma unroll
    for (int source = 0; source < kSources; ++source) sum[source].clear();
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      constexpr int first_chunk = BackwardK::first_chunk(source);
      for_chunks<BackwardK::chunks(source)>(
          [&](int chunk) { return GradientExchange::load(buffer, fragment, first_chunk + chunk); },
          [&](auto index, uint4 d) {
            constexpr int chunk = first_chunk + decltype(index)::value;
            sum[source].template add<2 * chunk>(weights.fragment[chunk][0], d.x, d.y,
                                                weights.rounding);
            sum[source].template add<2 * chunk + 1>(weights.fragment[chunk][1], d.z, d.w,
                                                    weights.rounding);
          });
    });
    // While the product runs: the results leave, and an earlier step's data is sent for, into the
    // place of this step's.
    fetch(t - kBackwardAhead, stage);
    stage = stage + 1 < kBackwardAhead ? stage + 1 : 0;
    exchange ^= GradientExchange::kBytes;
    Element* d_wx = a.d_wx + t * step_size * kInputGates;
    Element* d_rest = a.d_rest + t * step_size * (kGates - kInputGates);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        real wx[at_least_one(kInputGates)], rest[at_least_one(kGates - kInputGates)];
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          (g < kInputGates ? wx[g] : rest[g - kInputGates]) = d_gate[half][j][g];
        }
        Row<Element, kInputGates> wx_row;
        wx_row.set(wx);
        Row<Element, kGates - kInputGates> rest_row;
        rest_row.set(rest);
        if (given[half][j]) {
          wx_row.store(element_at(d_wx + 8 * half * kInputGates, at[j] * kInputGates));
          constexpr int others = kGates - kInputGates;
          rest_row.store(element_at(d_rest + 8 * half * others, at[j] * others));
        }
      }
    }
#pragma unroll
    for (int source = 0; source < kSources; ++source) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          d_state[half][j][kSourceState[source]] += sum[source].total(2 * half + j);
        }
      }
    }
  }

  if constexpr (!kSumsInParts) leave_sums(0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (given[half][j]) {
          *element_at(a.d_initial[s] + 8 * half, at[j]) = to_element<Element>(d_state[half][j][s]);
        }
      }
    }
  }
}

}  // namespace rnnc
