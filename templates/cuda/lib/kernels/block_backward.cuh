// Backward kernel of a block plan: one block runs all steps of one head and some batch rows, with R
// transposed in registers and the gradients of the gates in shared memory.
//
// A warp owns 16 units, the rows of one m16 tile: a thread has the units lane / 4 and lane / 4 + 8
// and the columns 2q and 2q + 1, q = lane % 4. For each source, K runs over the units of every pair
// (gate, source). Gradients of biases, params and diagonal weights are summed over time in
// registers.
#pragma once

#include "lib/cell/item_backward.cuh"
#include "lib/kernels/block_layout_backward.cuh"

namespace rnnc::block_backward {

RNNC_INLINE void run(const BackwardArguments& a) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * kBlockRows;
  const int first_unit = warp * kWarpUnits;
  const int64 plane = a.heads * kHeadDim, step_size = a.batch * plane;

  Weights weights;
  weights.load(shared, a.R, a.heads, head, first_unit, lane);

  // Item (half, j) of a thread is unit first_unit + 8 half + lane / 4 and column 2 quad + j, which
  // holds batch row first_row + kThreadRows quad + j. If there is no such unit or row, the thread
  // computes another item's values and stores none.
  const int steps = static_cast<int>(a.steps);
  const int unit = first_unit + (lane >> 2);
  const int64 row = first_row + kThreadRows * quad;
  constexpr bool whole = kHeadDim % kWarpUnits == 0;
  // An address is a uniform pointer and one of these offsets, in bytes.
  int64 offset_bytes[kThreadRows];
  bool row_valid[kThreadRows];
  const int64 first_unit_offset = head * kHeadDim + (whole || unit < kHeadDim ? unit : 0);
#pragma unroll
  for (int j = 0; j < kThreadRows; ++j) {
    row_valid[j] = row + j < a.batch;
    offset_bytes[j] = launder(((row_valid[j] ? row + j : 0) * plane + first_unit_offset) *
                              int64{sizeof(Element)});
  }
  bool valid[2][kThreadRows];
  int saved_offset[2][kThreadRows], state_offset[2][kThreadRows];  // in a stage, in bytes
  Params param[2];
  Diagonal diagonal[2];
  real after[2][kThreadRows][kStates], d_state[2][kThreadRows][kStates];
  GradientSums sums[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool exists = whole || unit + 8 * half < kHeadDim;
    const int half_unit = exists ? 8 * half : 0, real_unit = exists ? unit + 8 * half : 0;
    load_unit_weights(param[half], diagonal[half], a, plane, head * kHeadDim + real_unit);
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
      valid[half][j] = exists && row_valid[j];
      saved_offset[half][j] = launder(SavedCopy::offset(kThreadRows * quad + j, real_unit));
      state_offset[half][j] = launder(StateCopy::offset(kThreadRows * quad + j, real_unit));
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        const Element* last = a.states[s] + (steps - 1) * step_size + half_unit;
        after[half][j][s] =
            kReads[s] && steps > 0 ? to_real(*element_at(last, offset_bytes[j])) : real(0);
        d_state[half][j][s] =
            a.d_last[s] ? to_real(*element_at(a.d_last[s] + half_unit, offset_bytes[j])) : real(0);
      }
    }
  }
  for (int i = threadIdx.x; i < 2 * GradientExchange::kBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }

  // Copies what a step reads, several steps ahead.
  SavedCopy saved_copy;
  StateCopy state_copy;
  saved_copy.prepare(first_row, a.batch);
  state_copy.prepare(first_row, a.batch);
  char* const reads = shared + 2 * GradientExchange::kBytes;
  const auto prefetch = [&](int t, int stage) {
    if (t >= 0) {
      char* to = reads + stage * kStageBytes;
      const int64 t_offset = t * step_size + head * kHeadDim;
      saved_copy.issue(to, a.saved + t_offset * kSaved, plane * kSaved);
      to += SavedCopy::kBytes;
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (kReads[s]) {
          const Element* before =
              t > 0 ? a.states[s] + (t_offset - step_size) : a.initial_states[s] + head * kHeadDim;
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
    cp_async_commit();
  };
#pragma unroll 1
  for (int stage = 0; stage < kNumStages; ++stage) prefetch(steps - 1 - stage, stage);
  cp_async_wait<kNumStages - 1>();
  __syncthreads();

  const int fragment = launder(GradientExchange::first_fragment(lane));
  int stage_idx = 0, buffer_offset = 0;
  const auto store_sums = [&](int64 t) {
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
          store_part_sum(a.sums + part * plane + first_unit_offset + 8 * half, total, t, a.steps);
        }
      }
    }
  };
#pragma unroll 1
  for (int t = steps - 1; t >= 0; --t) {
    char* const buffer = shared + buffer_offset;
    const char* const stage = reads + stage_idx * kStageBytes;
    real d_gate[2][kThreadRows][at_least_one(kGates)];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        real saved[at_least_one(kSaved)], before[kStates], d_param[at_least_one(kParams)];
        unpack_saved(saved, SavedCopy::read(stage, saved_offset[half][j]));
#pragma unroll
        for (int s = 0; s < kStates; ++s) {
          const char* const states = stage + SavedCopy::kBytes + 2 * s * StateCopy::kBytes;
          before[s] = kReads[s] ? StateCopy::read(states, state_offset[half][j])[0] : real(0);
          if (a.d_states[s]) {
            d_state[half][j][s] +=
                StateCopy::read(states + StateCopy::kBytes, state_offset[half][j])[0];
          }
        }
        apply_pointwise_backward(saved, before, after[half][j], param[half], d_state[half][j],
                                 d_gate[half][j], d_param);
        add_diagonal_gradient(d_state[half][j], diagonal[half], d_gate[half][j]);
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
#pragma unroll
          for (int i = 0; i < kSourcePairs[source]; ++i) {
            const int k = K::first_k_tile(source) * kKTile + i * kPaddedDim + unit + 8 * half;
            if (valid[half][j]) {
              *reinterpret_cast<Element*>(buffer + GradientExchange::offset(2 * quad + j, k)) =
                  to_element<Element>(d_gate[half][j][kPairGate[kSourceFirstPair[source] + i]]);
            }
          }
        }
        // Rows and units that do not exist add nothing, whatever the equations give for zeros.
        if (valid[half][j]) add_to_sums(sums[half], d_gate[half][j], d_param, before);
#pragma unroll
        for (int s = 0; s < kStates; ++s) after[half][j][s] = before[s];
      }
    }
    if constexpr (kSumsInParts) {
      if (t % kPartSteps == 0) store_sums(t);
    }
    cp_async_wait<kNumStages - 2>();
    __syncthreads();

    Accumulator<kNumAccumulators> product[at_least_one(kSources)];
#pragma unroll
    for (int source = 0; source < kSources; ++source) product[source].clear();
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      constexpr int first_k_tile = K::first_k_tile(source);
      for_k_tiles<K::k_tiles(source)>(
          [&](int k_tile) {
            return GradientExchange::load(buffer, fragment, first_k_tile + k_tile);
          },
          [&](auto index, uint4 d) {
            constexpr int k_tile = first_k_tile + decltype(index)::value;
            product[source].template add<2 * k_tile>(weights.fragment[k_tile][0], d.x, d.y,
                                                     weights.rounding);
            product[source].template add<2 * k_tile + 1>(weights.fragment[k_tile][1], d.z, d.w,
                                                         weights.rounding);
          });
    });
    // While the product runs: copy an earlier step's data into the stage of this step's, and store
    // the results.
    prefetch(t - kNumStages, stage_idx);
    stage_idx = stage_idx + 1 < kNumStages ? stage_idx + 1 : 0;
    buffer_offset ^= GradientExchange::kBytes;
    Element* d_wx = a.d_wx + t * step_size * kInputGates;
    Element* d_no_input = a.d_gates_no_input + t * step_size * kGatesNoInput;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        Vec<Element, kInputGates> d_wx_vec;
        Vec<Element, kGatesNoInput> d_no_input_vec;
        pack_gates(d_wx_vec, d_no_input_vec, d_gate[half][j]);
        if (valid[half][j]) {
          d_wx_vec.store(element_at(d_wx + 8 * half * kInputGates, offset_bytes[j] * kInputGates));
          d_no_input_vec.store(
              element_at(d_no_input + 8 * half * kGatesNoInput, offset_bytes[j] * kGatesNoInput));
        }
      }
    }
#pragma unroll
    for (int source = 0; source < kSources; ++source) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          d_state[half][j][kSourceState[source]] += product[source].total(2 * half + j);
        }
      }
    }
  }

  if constexpr (!kSumsInParts) store_sums(0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (valid[half][j]) {
          *element_at(a.d_initial_states[s] + 8 * half, offset_bytes[j]) =
              to_element<Element>(d_state[half][j][s]);
        }
      }
    }
  }
}

}  // namespace rnnc::block_backward
