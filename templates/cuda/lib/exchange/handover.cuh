// Handover: a layer of a wavefront waits for chunks of steps of the layer before it, and says when
// its own chunks are stored. A chunk has two counters in global memory: `ready` is set when what
// the layer reads of it can be read, and each warp that stores results adds one to `done`.
//
// The layer before is the one below in a forward and the one above in a backward. Without
// RNNC_WAVEFRONT there is no such layer, and nothing here does anything.
#pragma once

#include "lib/cell/arguments.cuh"

#ifdef RNNC_WAVEFRONT
#include "lib/ptx/ld_st.cuh"
#include "lib/ptx/watchdog.cuh"
#endif

namespace rnnc {

#ifdef RNNC_WAVEFRONT

static __device__ __noinline__ __attribute__((noreturn)) void trap_without_chunk(int step,
                                                                                 int64 bound,
                                                                                 int64 layer,
                                                                                 int chunk) {
  if (atomicExch(&watchdog_reported, 1u) == 0) {
    char* to = append(append(watchdog_message, "chunk "), static_cast<int64>(chunk));
    to = append(append(append(to, " did not reach layer "), layer), " within ");
    append_seconds(to, bound);
    trap_with_message(step);
  }
  while (true) __nanosleep(1000000);  // until the assertion of the reporting thread ends the launch
}

// NOTE: all lanes of a warp must make the same calls, in the order of the steps: ascending in a
// forward, descending in a backward.
template <bool kDescending>
struct Handover {
  static constexpr int kNever = -0x7fffffff;  // no step
  int wait_at;     // the first step of the chunk to wait for next
  int publish_at;  // the last step, in the order of computation, of the chunk to publish next

  template <typename Arguments>
  RNNC_MEMBER explicit Handover(const Arguments& a) {
    const int steps = static_cast<int>(a.steps), chunk = static_cast<int>(a.handover.chunk);
    wait_at = !a.handover.ready ? kNever : kDescending ? steps - 1 : 0;
    publish_at = !a.handover.done ? kNever
                 : kDescending    ? (steps - 1) / chunk * chunk
                                  : minimum(chunk, steps) - 1;
    if (threadIdx.x == 0) red_add_relaxed_gpu(a.handover.started, 1);
  }

  // Before the first read of what the layer before gives for step t.
  template <typename Arguments>
  RNNC_MEMBER void wait(const Arguments& a, int t) {
    if (t != wait_at) return;
    const int chunk = static_cast<int>(a.handover.chunk), chunk_idx = t / chunk;
    Watchdog watchdog;
    while (!ld_acquire_gpu(a.handover.ready + chunk_idx)) {
      if (watchdog.late(a.watchdog)) {
        trap_without_chunk(t, a.watchdog, a.handover.layer, chunk_idx);
      }
    }
    wait_at = kDescending ? chunk_idx * chunk - 1 : (chunk_idx + 1) * chunk;
  }

  // After the warp's last store of step t, and before too many later ones: it waits for all of
  // them.
  template <typename Arguments>
  RNNC_MEMBER void publish(const Arguments& a, int t) {
    if (t != publish_at) return;
    const int steps = static_cast<int>(a.steps), chunk = static_cast<int>(a.handover.chunk);
    __syncwarp();
    if (threadIdx.x % 32 == 0) red_add_release_gpu(a.handover.done + t / chunk, 1);
    publish_at = kDescending ? t - chunk : minimum(t + chunk, steps - 1);
  }
};

#else

template <bool kDescending>
struct Handover {
  template <typename Arguments>
  RNNC_MEMBER explicit Handover(const Arguments&) {}
  template <typename Arguments>
  RNNC_MEMBER void wait(const Arguments&, int) {}
  template <typename Arguments>
  RNNC_MEMBER void publish(const Arguments&, int) {}
};

#endif

}  // namespace rnnc
