// The arguments of a step's kernel whose products are computed by the matrix library.
#pragma once

#include "lib/kernels/alternating/workspace.cuh"

namespace rnnc::alternating {

// The arguments that the init kernel wrote, and the step of a node. NOTE: volatile loads, so that
// all are in flight at once; loading each field at its use would cost the latency of L2 each time.
template <typename Arguments>
struct Call {
  Arguments a;
  int64 step;

  RNNC_MEMBER Call(const Workspace& workspace, int64 step_idx) {
    constexpr int words = sizeof(Arguments) / 8;
    u64 word[words];
    const int first_step = ld_global_s32(workspace.first_step);
    repeat<words>([&](int i) {
      word[i] = ld_global_u64(static_cast<const char*>(workspace.arguments) + 8 * i);
    });
    memcpy(&a, word, sizeof a);
    step = first_step + step_idx;
  }
};

}  // namespace rnnc::alternating
