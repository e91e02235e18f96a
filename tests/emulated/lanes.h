// What a CUDA kernel needs to run as C++: its lanes are fibers of one thread, which switch at
// barriers and at exchanges within a warp.
#pragma once
#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>
using std::memcpy;
using std::memset;
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 800

struct Dim {
  unsigned x, y, z;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }

template <typename T>
T __ldg(const T* from) {
  return *from;
}

inline Dim threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

struct Lane {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(128 << 10);
  bool done = false;
};
// A barrier of some lanes: the last to arrive lets all others go on.
struct Barrier {
  unsigned expected = 0, arrived = 0, turn = 0;
};
inline ucontext_t scheduler;
inline std::vector<Lane> lanes;
inline unsigned current;
inline Barrier block;
inline std::vector<Barrier> warps;
inline std::vector<unsigned> words;  // what lanes exchange, 16 each
inline std::function<void()>* body;

inline void wait(Barrier& barrier) {
  const unsigned turn = barrier.turn;
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    ++barrier.turn;
    return;
  }
  while (barrier.turn == turn) swapcontext(&lanes[current].context, &scheduler);
}
inline Barrier& warp() { return warps[current / 32]; }
inline unsigned* words_of(unsigned lane) { return &words[(current / 32 * 32 + lane) * 16]; }

// body(other) with what each lane of the warp gives, by its number.
template <int count, typename Body>
void exchange(const unsigned (&given)[count], const Body& use) {
  memcpy(words_of(current % 32), given, sizeof given);
  wait(warp());
  use();
  wait(warp());
}

inline void run_lane() {
  (*body)();
  lanes[current].done = true;
  --block.expected;
  --warp().expected;
}
inline void run_block(unsigned threads, std::function<void()> kernel) {
  body = &kernel;
  lanes.resize(threads);
  words.assign(threads * 16, 0);
  block = {threads};
  warps.assign((threads + 31) / 32, {32});
  for (unsigned i = 0; i < threads; ++i) {
    Lane& lane = lanes[i];
    lane.done = false;
    getcontext(&lane.context);
    lane.context.uc_stack = {lane.stack.data(), 0, lane.stack.size()};
    lane.context.uc_link = &scheduler;
    makecontext(&lane.context, run_lane, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (current = 0; current < threads; ++current) {
      if (lanes[current].done) continue;
      any = true;
      threadIdx = {current, 0, 0};
      swapcontext(&scheduler, &lanes[current].context);
    }
  }
}

template <typename Arguments>
void launch(void (*kernel)(Arguments), const void* arguments, Dim grid, unsigned threads) {
  Arguments a;
  memcpy(&a, arguments, sizeof a);
  blockDim = {threads, 1, 1};
  gridDim = grid;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      blockIdx = {x, y, 0};
      run_block(threads, [&] { kernel(a); });
    }
  }
}

}  // namespace emulation

inline void __syncthreads() { emulation::wait(emulation::block); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  unsigned given[2] = {};
  memcpy(given, &value, sizeof value);
  T found;
  emulation::exchange(given, [&] {
    memcpy(&found, emulation::words_of((emulation::current % 32) ^ mask), sizeof found);
  });
  return found;
}
inline bool __any_sync(unsigned, bool value) { return value; }
inline unsigned __ballot_sync(unsigned, bool value) {
  const unsigned given[1] = {value};
  unsigned found = 0;
  emulation::exchange(given, [&] {
    for (unsigned lane = 0; lane < 32; ++lane) found |= *emulation::words_of(lane) << lane;
  });
  return found;
}
