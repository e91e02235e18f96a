// The backward of a cluster plan for cells with stages: its layout of shared memory behind that of
// all cells, what it pushes, and the items of a thread.
#pragma once

#include "lib/stages/one_stage_backward.cuh"

// Of cells without stages: the items below name them, and nothing here uses them.
namespace rnnc::cluster_backward {
__device__ constexpr bool kReachesGate[Cell::kStates][at_least_one(Cell::kGates)] = {};
__device__ constexpr bool kReachesState[Cell::kStates][Cell::kStates] = {};
__device__ constexpr bool kReachesParam[Cell::kStates][at_least_one(Cell::kParams)] = {};
}  // namespace rnnc::cluster_backward

#include "lib/kernels/cluster/items_backward.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/cluster/statistics.cuh"
#include "lib/stages/number_copy.cuh"
#include "lib/stages/sums.cuh"

namespace rnnc::cluster_backward {

constexpr int kPartWarps = minimum(Plan::kWarps, kItemGroups);  // warps with items
// The four units of a column are in lanes whose indices differ in bits 1 and 4.
using Statistics = ClusterStatistics<Plan, 1, kItems, 18, kPartWarps, Plan::kWarps>;
using NumberCopy = rnnc::NumberCopy<kColumns, 32>;  // by each warp for its own items
using Sums = real[at_least_one(Cell::kStageSums)];
constexpr int kNumbersOffset = kBarriersOffset + kExchanges * kBarrierPairBytes;
constexpr int kNumbersBytes = Plan::kWarps * NumberCopy::kBytes;  // per step
constexpr int kStatisticsOffset = kNumbersOffset + Plan::kNumStages * kNumbersBytes;
constexpr int kStagedBytes = kStatisticsOffset + Statistics::kBytes - kSharedBytes;
static_assert(kStagedBytes == Plan::kStagedShared, "the plan counted another size");

// Bytes that the cluster pushes to a block for a stage.
RNNC_CONSTEXPR int pushed_bytes(int stage) {
  return sources_of(stage) * Plan::kCluster * kPartialBytes + Statistics::pushed_bytes(stage);
}

struct StagedPush : PartialPush {
  // Sends the partials of a source of a stage.
  template <int stage>
  RNNC_MEMBER void send_for(const Product& product, int source, int buffer) const {
    repeat<kWarpTiles>([&](int i) {
      u32 words[4];
      repeat<4>([&](int k) { words[k] = __float_as_uint(product[i][source].total(k)); });
      const int offset = buffer * kPartialsBytes + source * Plan::kCluster * kPartialBytes;
      if (kTiles % Plan::kWarps == 0 || tile[i] < kTiles) {
        st_async_v4(to[i] + offset, words,
                    owner[i] + kBarriersOffset + exchange_of(stage) * kBarrierPairBytes +
                        buffer * 8);
      }
    });
  }
};

struct StagedItems : Items {
  Values value[kItems];
  Ahead ahead[kItems];
  Sums sum;  // of the column that all items of the thread are in

  // Whether an item's unit does.
  RNNC_MEMBER bool exists(int item, const Position& at) const {
    return active[item] && at.block_unit + unit[item] < Plan::kHeadDim;
  }

  // What a stage reads of the step's data.
  struct StageData {
    ReadValues saved[kItems];
    Numbers number;
  };
  RNNC_MEMBER void read(StageData& data, int stage_idx, const Position& at,
                        const char* numbers) const {
    repeat<kItems>([&](int item) {
      const char* const from = this->stage(stage_idx, item, at.warp);
      unpack_saved(data.saved[item], SavedCopy::read(from, saved_offset[item]));
      unweighted.set_read(data.saved[item], item, 0);
    });
    NumberCopy::read(data.number, numbers, at.column);
  }

  // Reads the states of a step, and adds up the gradients of the states after it, but for what the
  // peers send.
  RNNC_MEMBER void begin_step(const BackwardArguments& a, int stage_idx, const Position& at) {
    repeat<kItems>([&](int item) {
      const char* const from = this->stage(stage_idx, item, at.warp);
      unroll<Cell::kStates>([&](auto index) {
        constexpr int s = decltype(index)::value, before_at = before_offset(s),
                      d_at = d_after_offset(s);
        const auto state = [&](int offset) -> real {
          return StateCopy::read(from + offset, state_offset[item])[0];
        };
        if constexpr (kResetsAhead && kReads[s]) {
          constexpr int reset_at = reset_offset(s);
          masks.set_reset(item, 0, s, launder(state(reset_at)));
        }
        last[item][s] = kReads[s] ? state(before_at) : real(0);
        found[item].state[s] = masks.carried(0, d_state[item][0][s]);
        if (a.d_states[s]) found[item].state[s] += state(d_at);
      });
      masks.select_before(item, 0, before[item], last[item]);
      // Gates that multiply one value share a product, which one of their values gets.
      repeat<Cell::kValues>([&](int k) { value[item][k] = 0; });
    });
  }
  // What the first stage reads no gradient for. NOTE: kept here, before the wait for the gradients of
  // the states: the compiler would compute it after that.
  RNNC_MEMBER void look_ahead(const StageData& data) {
    repeat<kItems>([&](int item) {
      compute_ahead(data.saved[item], data.number, before[item], after[item][0], param[item],
                    ahead[item]);
      for (auto& x : ahead[item]) x = launder(x);
    });
  }
  // Adds the sums that the peers sent for the states.
  RNNC_MEMBER void add_to_states(const Received& received) {
    for_state_sources([&](auto source, int item) {
      found[item].state[kSourceState[source]] += masks.arrived(0, received[item][source]);
    });
  }
  // What they sent for called gates of a stage, as values of that stage.
  template <int stage>
  RNNC_MEMBER void take(const Received& received) {
    for_sources_of<stage>([&](auto source) {
      repeat<kItems>(
          [&](int item) { value[item][kSourceValue[source]] = received[item][source]; });
    });
  }
  // The products with a weight per unit that a stage needs.
  template <int stage>
  RNNC_MEMBER void multiply_weights() {
    for_weights_of<stage>([&](const StageWeight& weight) {
      repeat<kItems>([&](int item) {
        value[item][weight.value] =
            diagonal[item][weight.weight] * found[item].gate[weight.gate];
      });
    });
  }

  // One stage of all items: publishes in `buffer` the gradients of gates that it computes.
  template <int stage>
  RNNC_MEMBER void run_stage(const StageData& data, char* buffer, int column) {
    repeat<kItems>([&](int item) {
      Gradients& own = found[item];
      apply_stage_backward<stage>(data.saved[item], data.number, before[item], after[item][0],
                                  param[item], ahead[item], sum, value[item], own.state, own.gate, own.param);
      unroll<Cell::kSources>([&](auto source_index) {
        constexpr int source = decltype(source_index)::value;
        unroll<kSourcePairs[source]>([&](auto index) {
          constexpr int p = decltype(index)::value;
          constexpr int gate = kPairGate[kSourceFirstPair[source] + p];
          if constexpr (kGateStage[gate] == stage) {
            const int k = K::first_k_tile(source) * kKTile + p * Plan::kUnits + unit[item];
            if (valid[item]) {
              *reinterpret_cast<Element*>(buffer + GradientExchange::offset(column, k)) =
                  to_element<Element>(own.gate[gate]);
            }
          }
        });
      });
    });
  }
  // Adds to the sums over time what a stage has computed. Padding adds nothing, whatever the
  // equations give there.
  template <int stage>
  RNNC_MEMBER void add_stage(const StageData& data) {
    repeat<kItems>([&](int item) {
      if (!valid[item] || !masks.runs(0)) return;
      add_stage_to_sums<stage>(sums[item], found[item].gate, found[item].param, before[item],
                               data.saved[item]);
    });
  }

  // If the gradient of the states before the step after step t, with what the peers sent, ends
  // there.
  RNNC_MEMBER void end_gradient_of(const BackwardArguments& a, int t, const Received& received) {
    if (!masks.ends(a)) return;
    repeat<kItems>([&](int item) {
      States total;
      assign(total, d_state[item][0]);
      repeat<Cell::kStateSources>(
          [&](int source) { total[kSourceState[source]] += received[item][source]; });
      masks.end_gradient(item, a, t, valid[item], total);
    });
  }
  RNNC_MEMBER void finish_states(const Received& received) {
    for_state_sources([&](auto source, int item) {
      if (active[item]) d_state[item][0][kSourceState[source]] += received[item][source];
    });
  }

  // Stores the gradients of a step's gates and moves on to the step before it.
  RNNC_MEMBER void store_step_of(const BackwardArguments& a, const Position& at) {
    repeat<kItems>([&](int item) {
      if (!active[item]) return;
      PackedGates packed(found[item].gate);
      packed.clear_unless(masks.runs(0));
      if (valid[item]) {
        packed.store(element_at(a.d_wx, t_offset_bytes[item] * Cell::kInputGates),
                     element_at(a.d_gates_no_input, t_offset_bytes[item] * kGatesNoInput));
      }
      t_offset_bytes[item] -= at.time(a).stride(at.step_size) * int64{sizeof(Element)};
      assign(d_state[item][0], found[item].state);
      assign(after[item][0], last[item]);
      repeat<Cell::kStateDiagonals>([&](int n) {
        const int i = kDiagonalOrder[n];
        d_state[item][0][kDiagonalSource[i]] +=
            diagonal[item][i] * found[item].gate[kDiagonalGate[i]];
      });
    });
  }

 private:
  template <typename Body>
  static RNNC_MEMBER void for_state_sources(const Body& body) {
    unroll<Cell::kStateSources>(
        [&](auto source) { repeat<kItems>([&](int item) { body(source, item); }); });
  }
};

}  // namespace rnnc::cluster_backward
