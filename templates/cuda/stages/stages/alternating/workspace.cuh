// What the kernels of an alternating plan have in common for a cell with stages: further buffers,
// and the items that a thread computes.
//
// A step is several launches: products of matrices stand between them. A launch runs the stages up
// to the next product. What a stage leaves for later ones lies in the workspace, not rounded, and
// the thread that wrote it reads it.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/kernels/alternating/workspace.cuh"
#include "lib/stages/arguments.cuh"

namespace rnnc::alternating {

// Values of an item that stages leave, and numbers of a head.
using Values = real[at_least_one(Cell::kValues)];
using Numbers = real[at_least_one(Cell::kStatistics)];

struct StagedWorkspace : Workspace {
  // [values, B, N, D]: kValues, and behind them in a forward the sum of the products of each gate,
  // if kFused, and in a backward the gradients of gates and params.
  real* values;
  real* numbers;  // [B, N, numbers of a head that this direction computes]
};

template <typename Arguments>
struct StagedInitArgs {
  Arguments arguments;
  StagedWorkspace workspace;
};

struct StagedStepArgs {
  StagedWorkspace workspace;
  int64 step_idx;  // within the current part of the steps
};

// Whether units of a head are reduced to numbers. Then a block has all units of a batch row and a
// head; otherwise a thread has one item.
constexpr bool kByHead = Cell::kStageStatistics > 0;

// body(item) for each item of a thread.
template <typename Body>
RNNC_INLINE void for_items(const StagedWorkspace& workspace, const Body& body) {
  if constexpr (kByHead) {
    const u32 row = blockIdx.x / workspace.heads, head = blockIdx.x - row * workspace.heads;
    for (u32 d = threadIdx.x; d < workspace.dim; d += blockDim.x) {
      body(ItemIndex(workspace, head, d, row, true));
    }
  } else {
    const ItemIndex item(workspace);
    if (item.valid) body(item);
  }
}

// A head of a batch row, counted in [B, N].
RNNC_INLINE int64 head_of(const StagedWorkspace& workspace, const ItemIndex& item) {
  return int64{item.b} * workspace.heads + item.n;
}

// Where an item's value lies.
RNNC_INLINE real* value_at(const StagedWorkspace& workspace, const ItemIndex& item, int number) {
  return workspace.values + number * workspace.size() + item.row;
}

// Reads what stages before this one left, 0 for other values; and writes what this one leaves.
template <int stage>
RNNC_INLINE void load_values(Values& value, const StagedWorkspace& workspace,
                             const ItemIndex& item) {
  repeat<Cell::kValues>([&](int v) {
    const bool is_left = kValueStage[v] >= 0 && kValueStage[v] < stage;
    value[v] = is_left ? *value_at(workspace, item, v) : real(0);
  });
}
template <int stage>
RNNC_INLINE void store_values(const Values& value, const StagedWorkspace& workspace,
                              const ItemIndex& item) {
  repeat<Cell::kValues>([&](int v) {
    if (kValueStage[v] == stage) *value_at(workspace, item, v) = value[v];
  });
}

// body(source, pair, i) for each pair i of the sources whose products are known before a stage.
template <int stage, typename Body>
RNNC_INLINE void for_products_before(const Body& body) {
  for_source_pairs([&](int source, int i) {
    if (kSourceStage[source] <= stage) body(source, kSourceFirstPair[source] + i, i);
  });
}

}  // namespace rnnc::alternating
