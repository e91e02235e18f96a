// The arguments of kernels of cells with stages: those of all cells, and one tensor more.
// runtime/cuda/arguments.py mirrors these structs.
#pragma once

#include "lib/cell/arguments.cuh"

namespace rnnc {

struct StagedForwardArguments : ForwardArguments {
  real* statistics;  // [T, B, N, kSavedStatistics]; null: no backward follows
};

struct StagedBackwardArguments : BackwardArguments {
  const real* statistics;  // [T, B, N, kSavedStatistics]
};

}  // namespace rnnc
