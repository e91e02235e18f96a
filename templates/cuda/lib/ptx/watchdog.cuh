// The watchdog of a block that waits for another block's data: it ends the launch with one message,
// where a wait in vain would hang the GPU.
//
// Data that is late for the first time may come of a block that has no multiprocessor yet, since
// other work holds it. Once a block has had data from all blocks that it waits for, all of them run.
#pragma once

// NOTE: the driver prints "file:line: function: block: ..., thread: ... Assertion `message` failed".
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char* message,
                                                                  const char* file, unsigned line,
                                                                  const char* function,
                                                                  size_t char_size);

namespace rnnc {

constexpr int64 kFirstDataBound = 300000000000;  // ns, where other work may hold the chip

// What a wait tells the watchdog.
struct Wait {
  int64 bound;     // of the launch, in ns; 0: none
  int step;        // that waits, for the message
  int first_step;  // the step whose data may come of a block that has not begun
};
constexpr int kNoStep = -2;  // of blocks that begin together: no step has that number

// The clock in units of 2^20 ns, about a millisecond: a register of 32 bits holds it for weeks.
constexpr int kTickBits = 20;
RNNC_INLINE u32 ticks() {
  int64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return static_cast<u32>(now >> kTickBits);
}

// Set by the thread that speaks: the first of a module, so that a time-out prints one line.
static __device__ u32 watchdog_spoke;
static __device__ char watchdog_message[] =
    "another block's data did not arrive within 2.0 seconds             ";
constexpr int kMessageNumber = 43;  // where the number begins

// The plan's name stands in the place of a file's, the step in the place of a line's.
static __device__ __noinline__ __attribute__((noreturn)) void time_out(int step, int64 bound) {
  if (atomicExch(&watchdog_spoke, 1u) == 0) {
    int64 tenths = bound / 100000000, digit = 10;
    while (digit * 10 <= tenths) digit *= 10;
    char* to = watchdog_message + kMessageNumber;
    for (; digit > 0; digit /= 10) {
      if (digit == 1) *to++ = '.';
      *to++ = static_cast<char>('0' + tenths / digit % 10);
    }
    const char unit[] = {' ', 's', 'e', 'c', 'o', 'n', 'd', 's', '\0'};
#pragma unroll
    for (int i = 0; i < 9; ++i) *to++ = unit[i];
    __threadfence_system();
    __assertfail(watchdog_message, kPlanName, step < 0 ? 0 : step, "rnnc", 1);
  }
  while (true) __nanosleep(1000000);  // until the speaker's assertion ends the launch
}

// Asked in a loop that waits for another block.
struct Watchdog {
  static constexpr u32 kTurns = 64;  // the clock is read once in so many
  u32 turns = 0, start = 0;

  // At every turn of the loop.
  RNNC_MEMBER void turn(const Wait& wait) {
    if (++turns % kTurns == 0) look(wait);
  }
  // At some of them.
  RNNC_MEMBER void look(const Wait& wait) {
    const u32 now = ticks();
    if (!start) start = now;
    // NOTE: opaque, so that no loop computes the bound before it is needed.
    const bool first = opaque(wait.step) == wait.first_step;
    const int64 bound = first && wait.bound < kFirstDataBound ? kFirstDataBound : wait.bound;
    if (wait.bound && now - start > bound >> kTickBits) time_out(wait.step, bound);
  }
};

}  // namespace rnnc
