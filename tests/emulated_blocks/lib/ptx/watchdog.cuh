#pragma once
#include "lib/ptx/launder.cuh"
namespace rnnc {
struct Wait {
  int64 bound;
  int step, first_step;
};
constexpr int kNoStep = -2;
struct Watchdog {
  void poll(const Wait&) { emulation::yield(); }
  void check(const Wait&) { emulation::yield(); }
  bool late(int64) { return true; }  // what writes the number has been issued before, and has run
};
inline u32 watchdog_reported;
inline char watchdog_message[96];
template <typename T>
char* append(char* to, T) {
  return to;
}
inline char* append_seconds(char* to, int64) { return to; }
inline void trap_with_message(int) { std::abort(); }
}  // namespace rnnc
