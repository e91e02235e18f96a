// What forward and backward kernels both do for an item, which is one unit of one batch row.
#pragma once

#include "lib/cell/arguments.cuh"

namespace rnnc {

// Arrays of values of one item or unit.
using Gates = real[at_least_one(Cell::kGates)];
using States = real[Cell::kStates];
using Params = real[at_least_one(Cell::kParams)];
using Diagonal = real[at_least_one(Cell::kDiagonalPairs)];
using Saved = real[at_least_one(Cell::kSaved)];

// body(source, i) for each source, and each i of its pairs.
template <typename Body>
RNNC_INLINE void for_source_pairs(const Body& body) {
#pragma unroll
  for (int source = 0; source < Cell::kSources; ++source) {
#pragma unroll
    for (int i = 0; i < kSourcePairs[source]; ++i) body(source, i);
  }
}

// The params and diagonal weights of a unit, constant over time. `unit` indexes [N, D], of `plane`
// units.
template <typename Arguments>
RNNC_INLINE void load_unit_weights(Params& param, Diagonal& diagonal, const Arguments& a,
                                   int64 plane, int64 unit) {
  repeat<Cell::kParams>([&](int i) { param[i] = to_real(a.params[i][unit]); });
  repeat<Cell::kDiagonalPairs>([&](int i) { diagonal[i] = to_real(a.R_diag[i * plane + unit]); });
}

}  // namespace rnnc
