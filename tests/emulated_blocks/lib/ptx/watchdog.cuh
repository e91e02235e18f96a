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
};
}  // namespace rnnc
