// Forward kernel of a block plan: one block runs all steps of one head and some batch rows, with R
// in registers and h in shared memory.
//
// A warp owns kUnitGroups groups of 8 units. Rows of R are interleaved by gate: the two halves of
// an m16 tile are 8 units of one gate and 8 units of the next. So a thread's accumulators hold all
// gates of unit lane / 4 of each group, for columns 2q and 2q + 1, q = lane % 4. The states stay in
// that thread's registers; only those that a dense gate reads go to shared memory, behind one
// barrier per step.
//
// With kThreadRows = 1 the odd columns stay empty: a block has 4 batch rows and half the pointwise
// work, and there are twice as many blocks.
#pragma once

#include "lib/cell/item_forward.cuh"
#include "lib/kernels/block_layout_forward.cuh"

namespace rnnc::block_forward {

RNNC_INLINE void run(const ForwardArguments& a) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3;
  const int64 head = blockIdx.x, first_row = (a.first_tile + blockIdx.y) * kBlockRows;
  const int first_unit = warp * 8 * kUnitGroups;

  Weights weights;
  weights.load(a.R, a.heads, head, first_unit, lane);

  // Item (group, j) of a thread is unit first_unit + 8 group + lane / 4 and column 2 quad + j,
  // which holds batch row first_row + kThreadRows quad + j. If there is no such unit or row, the
  // thread computes another item's values and stores none.
  const int steps = static_cast<int>(a.steps);
  const int unit = pin(first_unit + (lane >> 2));
  const int64 plane = a.heads * kHeadDim, row = first_row + kThreadRows * quad;
  constexpr bool whole = kHeadDim % (8 * kUnitGroups) == 0;
  // An address is a uniform pointer and one of these offsets, in bytes.
  int64 offset_bytes[kThreadRows];
  const int64 rows_left = a.batch - row;
  const int valid_rows = pin(rows_left < 1 ? 0 : rows_left < kThreadRows ? 1 : kThreadRows);
#pragma unroll
  for (int j = 0; j < kThreadRows; ++j) {
    const int64 real_row = j < valid_rows ? row + j : 0;
    const int64 real_unit = head * kHeadDim + (whole || unit < kHeadDim ? unit : 0);
    offset_bytes[j] = launder((real_row * plane + real_unit) * int64{sizeof(Element)});
  }
  bool valid[kUnitGroups][kThreadRows];
  int exchange_offset[kUnitGroups][kThreadRows];  // in an exchange buffer, in bytes
  int input_offset[kUnitGroups][kThreadRows];     // in a stage_idx of inputs, in bytes
  Params param[kUnitGroups];
  Diagonal diagonal[kUnitGroups];
  Gates bias[kUnitGroups];
  States state[kUnitGroups][kThreadRows];
#pragma unroll
  for (int group = 0; group < kUnitGroups; ++group) {
    const bool exists = whole || unit + 8 * group < kHeadDim;
    const int group_unit = exists ? 8 * group : 0, real_unit = exists ? unit + 8 * group : 0;
    const int64 unit_offset = head * kHeadDim + real_unit;
    load_bias(bias[group], a, plane, unit_offset);
    load_unit_weights(param[group], diagonal[group], a, plane, unit_offset);
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
      valid[group][j] = exists && j < valid_rows;
      exchange_offset[group][j] = launder(StateExchange::offset(2 * quad + j, unit + 8 * group));
      input_offset[group][j] = launder(InputCopy::offset(kThreadRows * quad + j, real_unit));
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        state[group][j][s] =
            to_real(*element_at(a.initial_states[s] + group_unit, offset_bytes[j]));
      }
    }
  }

  // Padding in K and rows beyond the batch stay zero throughout.
  for (int i = threadIdx.x; i < 2 * kBufferBytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(shared)[i] = 0u;
  }
  __syncthreads();
  const auto publish = [&](char* buffer, const real(&states)[kUnitGroups][kThreadRows][kStates]) {
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
        for (int source = 0; source < kSources; ++source) {
          if (valid[group][j]) {
            *reinterpret_cast<Element*>(buffer + source * StateExchange::kBytes +
                                        exchange_offset[group][j]) =
                to_element<Element>(states[group][j][kSourceState[source]]);
          }
        }
      }
    }
  };
  publish(shared, state);

  // Copies wx of later steps: a step is shorter than a round trip to memory.
  InputCopy input;
  input.prepare(first_row, a.batch);
  const Element* next_input = a.wx + head * kHeadDim * kInputGates;
  char* const inputs = shared + 2 * kBufferBytes;
  const auto prefetch = [&](int t, int stage_idx) {
    if (t < steps) {
      input.issue(inputs + stage_idx * InputCopy::kBytes, next_input, a.wx_row);
      next_input += a.wx_time;
    }
    cp_async_commit();
  };
#pragma unroll 1
  for (int stage_idx = 0; stage_idx < kNumStages; ++stage_idx) prefetch(stage_idx, stage_idx);
  cp_async_wait<kNumStages - 2>();
  __syncthreads();

  // The gates of the next step without the product: ready before h is, they seed the accumulators
  // of two-byte elements.
  real base[kUnitGroups][kThreadRows][at_least_one(kGates)];
  const auto start_gates = [&](int stage_idx) {
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        const auto x =
            InputCopy::read(inputs + stage_idx * InputCopy::kBytes, input_offset[group][j]);
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          base[group][j][g] = bias[group][g];
          if (g < kInputGates) base[group][j][g] += x[g];
          base[group][j][g] = launder(base[group][j][g]);
        }
      }
    }
  };
  const auto add_states = [&]() {
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        add_diagonal(base[group][j], diagonal[group], state[group][j]);
      }
    }
  };
  start_gates(0);
  add_states();
  __syncthreads();

  const int64 step_size = a.batch * plane;
  real saved[kUnitGroups][kThreadRows][at_least_one(kSaved)];
  int64 t_offset = 0;  // into [T, B, N, D], of the step whose results are stored next
  const auto store = [&]() {
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if (!a.states[s]) continue;
      Element* to = a.states[s] + t_offset;
#pragma unroll
      for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          const auto vec = pack_state(state[group][j][s]);
          if (valid[group][j]) vec.store(element_at(to + 8 * group, offset_bytes[j]));
        }
      }
    }
    if (kSaved && a.saved) {
      Element* to = a.saved + t_offset * kSaved;
#pragma unroll
      for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          const auto vec = pack_saved(saved[group][j]);
          if (valid[group][j])
            vec.store(element_at(to + 8 * group * kSaved, offset_bytes[j] * kSaved));
        }
      }
    }
    t_offset += step_size;
  };

  const int fragment = launder(StateExchange::first_fragment(lane));
  int stage_idx = 0, buffer_offset = 0;
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    Accumulator<kNumAccumulators> product[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) product[tile].clear();
    Tiles::for_pairs([&](auto pair_index, auto group_index, auto tile_index, auto half_index) {
      constexpr int pair = decltype(pair_index)::value, group = decltype(group_index)::value;
      if constexpr (kSeeded && first_of_gate(pair)) {
        auto& part = product[decltype(tile_index)::value].part[0];
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          part[2 * decltype(half_index)::value + j] = base[group][j][kPairGate[pair]];
        }
      }
    });
    unroll<kSources>([&](auto source_index) {
      constexpr int source = decltype(source_index)::value;
      constexpr int first = Tiles::first_tile(source);
      const char* const states = shared + buffer_offset + source * StateExchange::kBytes;
      for_k_tiles<kDimKTiles>(
          [&](int k_tile) { return StateExchange::load(states, fragment, k_tile); },
          [&](auto index, uint4 h) {
            constexpr int k_tile = decltype(index)::value;
            unroll<Tiles::tiles(source)>([&](auto tile_index) {
              constexpr int tile = first + decltype(tile_index)::value;
              product[tile].template add<0>(weights.fragment[k_tile][0][tile], h.x, h.y,
                                            weights.rounding);
            });
            unroll<Tiles::tiles(source)>([&](auto tile_index) {
              constexpr int tile = first + decltype(tile_index)::value;
              product[tile].template add<1>(weights.fragment[k_tile][1][tile], h.z, h.w,
                                            weights.rounding);
            });
          });
    });
    // While the product runs: store the results of the last step, and copy a later input into the
    // stage_idx of this step's.
    if (t > 0) store();
    prefetch(t + kNumStages, stage_idx);
    cp_async_wait<kNumStages - 2>();
    stage_idx = stage_idx + 1 < kNumStages ? stage_idx + 1 : 0;

    real gate[kUnitGroups][kThreadRows][at_least_one(kGates)];
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) assign(gate[group][j], base[group][j]);
    }
    Tiles::for_pairs([&](auto pair_index, auto group_index, auto tile_index, auto half_index) {
      constexpr int pair = decltype(pair_index)::value, group = decltype(group_index)::value;
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) {
        const float total =
            product[decltype(tile_index)::value].total(2 * decltype(half_index)::value + j);
        real& sum = gate[group][j][kPairGate[pair]];
        sum = kSeeded && first_of_gate(pair) ? total : sum + total;
      }
    });
    start_gates(stage_idx);
    buffer_offset ^= kBufferBytes;
    real next[kUnitGroups][kThreadRows][kStates];
    const auto compute = [&](auto& sigmoid) {
#pragma unroll
      for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kThreadRows; ++j) {
          apply_pointwise_forward(gate[group][j], state[group][j], param[group], next[group][j],
                                  saved[group][j], sigmoid);
        }
      }
    };
    with_sigmoid<true>(compute, [&] { publish(shared + buffer_offset, next); });
#pragma unroll
    for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
      for (int j = 0; j < kThreadRows; ++j) assign(state[group][j], next[group][j]);
    }
    add_states();
    __syncthreads();
  }
  if (steps > 0) store();
#pragma unroll
  for (int group = 0; group < kUnitGroups; ++group) {
#pragma unroll
    for (int j = 0; j < kThreadRows; ++j) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (valid[group][j]) {
          *element_at(a.last[s] + 8 * group, offset_bytes[j]) =
              to_element<Element>(state[group][j][s]);
        }
      }
    }
  }
}

}  // namespace rnnc::block_forward
