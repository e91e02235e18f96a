// Watchdog: traps with one message, instead of hanging the GPU, when another block's data does not
// arrive.
//
// The first wait may be long: the other block may have no multiprocessor yet because other work
// holds it. Once a block has received data from all blocks that it waits for, all of them are
// running.
#pragma once

#include "lib/ptx/launder.cuh"

// The driver prints "file:line: function: block: ..., thread: ... Assertion `message` failed".
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char* message,
                                                                  const char* file, unsigned line,
                                                                  const char* function,
                                                                  size_t char_size);

namespace rnnc {

constexpr int64 kFirstDataBound = 300000000000;  // ns, while other work may hold the chip

// What the watchdog needs to know about a wait.
struct Wait {
  int64 bound;     // ns; 0: no bound
  int step;        // the step that waits, for the message
  int first_step;  // the step whose data may come from a block that has not started
};
constexpr int kNoStep = -2;  // for blocks that start together: no step has this number

// The clock in units of 2^20 ns, about a millisecond: 32 bits hold it for weeks.
constexpr int kTickBits = 20;
RNNC_INLINE u32 ticks() {
  int64 nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return static_cast<u32>(nanoseconds >> kTickBits);
}

// Append a text or a number to a message; return its end.
RNNC_INLINE char* append(char* to, const char* text) {
  while (*text) *to++ = *text++;
  *to = 0;
  return to;
}
RNNC_INLINE char* append(char* to, int64 number) {
  int64 digit = 1;
  while (digit * 10 <= number) digit *= 10;
  for (; digit > 0; digit /= 10) *to++ = static_cast<char>('0' + number / digit % 10);
  *to = 0;
  return to;
}
RNNC_INLINE char* append_seconds(char* to, int64 bound) {
  const int64 tenths = bound / 100000000;
  to = append(append(append(to, tenths / 10), "."), tenths % 10);
  return append(to, " seconds");
}

// Set by the first thread of the module that times out, so that only one message is printed.
static __device__ u32 watchdog_reported;
static __device__ char watchdog_message[96];

// Prints the message, with the plan's name as the file and the step as the line.
static __device__ __noinline__ __attribute__((noreturn)) void trap_with_message(int step) {
  __threadfence_system();
  __assertfail(watchdog_message, kPlanName, step < 0 ? 0 : step, "rnnc", 1);
}

static __device__ __noinline__ __attribute__((noreturn)) void trap_timed_out(int step,
                                                                             int64 bound) {
  if (atomicExch(&watchdog_reported, 1u) == 0) {
    char* to = append(watchdog_message, "another block's data did not arrive within ");
    append_seconds(to, bound);
    trap_with_message(step);
  }
  while (true) __nanosleep(1000000);  // until the assertion of the reporting thread ends the launch
}

struct Watchdog {
  static constexpr u32 kPollsPerCheck = 64;
  u32 polls = 0, start = 0;

  // For every iteration of a waiting loop: reads the clock in some of them.
  RNNC_MEMBER void poll(const Wait& wait) {
    if (++polls % kPollsPerCheck == 0) check(wait);
  }
  // Traps if the bound has passed since the first check.
  RNNC_MEMBER void check(const Wait& wait) {
    const u32 now = ticks();
    if (!start) start = now;
    // NOTE: laundered, so that the compiler computes the bound here and not ahead of the loop.
    const bool first = launder(wait.step) == wait.first_step;
    const int64 bound = first && wait.bound < kFirstDataBound ? kFirstDataBound : wait.bound;
    if (wait.bound && now - start > bound >> kTickBits) trap_timed_out(wait.step, bound);
  }
  // For every iteration of a loop with a message of its own: whether the bound has passed.
  RNNC_MEMBER bool late(int64 bound) {
    if (++polls % kPollsPerCheck) return false;
    const u32 now = ticks();
    if (!start) start = now;
    return bound && now - start > bound >> kTickBits;
  }
};

}  // namespace rnnc
