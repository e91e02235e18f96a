// The order of time: a cell runs from the first step to the last or, where the generated source
// defines RNNC_REVERSE, from the last to the first.
//
// Kernels count steps in the order in which they run, and a backward counts them down. Each tensor
// over time is given by the address of the step that runs first. The strides of wx and of the
// gradients of states are arguments with a sign; the stride of all others is `time_stride`.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// The distance from a step to the one that runs after it, in a contiguous tensor over time.
RNNC_INLINE int64 time_stride(int64 step_size) {
#ifdef RNNC_REVERSE
  return -step_size;
#else
  return step_size;
#endif
}

}  // namespace rnnc
