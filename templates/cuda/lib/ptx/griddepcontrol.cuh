// Programmatic dependent launch: the next kernel of the stream starts before this one has ended.
// Does nothing before compute capability 9.0, where launches do not overlap.
#pragma once

#include "lib/ptx/types.cuh"

namespace rnnc {

// Lets the blocks of the next launch start as soon as there is room. They must not read what this
// launch writes before their griddepcontrol_wait.
RNNC_INLINE void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the launch before this one has ended and its writes can be read.
RNNC_INLINE void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace rnnc
