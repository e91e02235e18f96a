// What every kernel of a cell with stages does for an item, which is one unit of one batch row.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/vec.cuh"

namespace rnnc {

// What the stages of a step leave for exchanges and for later stages; numbers of a head.
using Values = real[at_least_one(Cell::kValues)];
using Numbers = real[at_least_one(Cell::kStatistics)];

RNNC_CONSTEXPR int source_of_pair(int pair) {
  int source = 0;
  while (pair >= kSourceFirstPair[source] + kSourcePairs[source]) ++source;
  return source;
}
// Before which stage a step needs the product of a dense pair.
RNNC_CONSTEXPR int stage_of_pair(int pair) { return kSourceStage[source_of_pair(pair)]; }
// Whether units wait for each other before a stage: for products with matrices, or for numbers.
RNNC_CONSTEXPR bool exchanges_before(int stage) {
  for (int i = 0; i < Cell::kSources; ++i) {
    if (kSourceStage[i] == stage) return true;
  }
  for (int i = 0; i < Cell::kStageStatistics; ++i) {
    if (kStageStatistics[i].stage == stage) return true;
  }
  return false;
}

// Writes a vector to shared memory. NOTE: where the compiler cannot tell the alignment of an
// address, it writes byte by byte: in a grid of 1 x 768 the partials of four gates then took 1,400
// cycles of a step. ptxas 13.0 even takes the bytes of a two-byte number by a conversion of that
// number to an integer.
template <typename T, int n>
RNNC_INLINE void write_aligned(const Vec<T, n>& vec, void* shared) {
  vec.write(__builtin_assume_aligned(shared, Vec<T, n>::kAccess));
}

// body(source) for each source whose product a stage needs.
template <int stage, typename Body>
RNNC_INLINE void for_sources_of(const Body& body) {
  unroll<Cell::kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    if constexpr (kSourceStage[source] == stage) body(source_index);
  });
}
// body(weight) for each product with a weight per unit that a stage needs.
template <int stage, typename Body>
RNNC_INLINE void for_weights_of(const Body& body) {
  unroll<Cell::kStageWeights>([&](auto index) {
    constexpr StageWeight weight = kStageWeights[decltype(index)::value];
    if constexpr (weight.stage == stage) body(weight);
  });
}
// body(index) for each statistic that a stage needs.
template <int stage, typename Body>
RNNC_INLINE void for_statistics_of(const Body& body) {
  unroll<Cell::kStageStatistics>([&](auto index) {
    if constexpr (kStageStatistics[decltype(index)::value].stage == stage) body(index);
  });
}
// Adds the states to the gates that read them through weights per unit.
RNNC_INLINE void add_state_diagonal(Gates& gate, const Diagonal& diagonal, const States& state) {
  repeat<Cell::kStateDiagonals>([&](int n) {
    const int i = kDiagonalOrder[n];
    gate[kDiagonalGate[i]] += diagonal[i] * state[kDiagonalSource[i]];
  });
}
// Adds the gradients of gates to the states that they read through weights per unit.
RNNC_INLINE void add_state_diagonal_gradient(States& d_state, const Diagonal& diagonal,
                                             const Gates& d_gate) {
  repeat<Cell::kStateDiagonals>([&](int n) {
    const int i = kDiagonalOrder[n];
    d_state[kDiagonalSource[i]] += diagonal[i] * d_gate[kDiagonalGate[i]];
  });
}

// As in lib/ptx/launder.cuh.
RNNC_INLINE int64 pin(int64 x) { return __shfl_sync(~0u, x, threadIdx.x & 31); }

// The same packed values, of which the compiler keeps no others.
template <typename T, int n>
RNNC_INLINE void launder_words(Vec<T, n>& vec) {
  if constexpr (n > 0) {
    for (auto& word : vec.words) word = launder(static_cast<u32>(word));
  }
}
// Values of a kernel with masks that are packed ahead of the branch that stores them. NOTE: else the
// compiler selects padding away within the branch, which is long then, and each warp waits at its end.
template <typename T, int n>
RNNC_INLINE void settle(Vec<T, n>& vec) {
  if (kMasked) launder_words(vec);
}

}  // namespace rnnc
