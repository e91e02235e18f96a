// What a block does that waits in vain for another: it ends the launch with a message, where it would
// hang the GPU.
#pragma once

// NOTE: the driver prints "file:line: function: block: ..., thread: ... Assertion `message` failed".
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char* message,
                                                                  const char* file, unsigned line,
                                                                  const char* function,
                                                                  size_t char_size);

namespace rnnc {

constexpr int64 kPatience = 2000000000;  // ns

RNNC_INLINE int64 nanoseconds() {
  int64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// The plan's name stands in the place of a file's, the step in the place of a line's.
static __device__ __noinline__ __attribute__((noreturn)) void stuck(int step) {
  __assertfail("the other blocks' data came within two seconds", kPlanName, step, "rnnc", 1);
  __trap();
}

// Asked at every turn of a loop that waits for another block; ends the launch after kPatience.
struct Patience {
  static constexpr unsigned kTurns = 64;  // the clock is read once in so many
  unsigned turns = 0;
  int64 start = 0;

  RNNC_MEMBER void lose(int step) {
    if (++turns % kTurns) return;
    const int64 now = nanoseconds();
    if (!start) start = now;
    if (now - start > kPatience) stuck(step);
  }
};

}  // namespace rnnc
