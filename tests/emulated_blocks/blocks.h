// What kernels whose blocks wait for each other need to run as C++: the lanes of all blocks of a
// launch are fibers of one thread, which switch wherever a lane waits.
#pragma once
#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>
using std::max;
using std::memcpy;
using std::memset;
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __global__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __builtin_assume(...)
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
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>((unsigned long long)(high) << 32 | (unsigned)(low));
}
inline int __double2hiint(double x) { return std::bit_cast<unsigned long long>(x) >> 32; }
inline int __double2loint(double x) { return std::bit_cast<unsigned long long>(x); }

inline Dim threadIdx, blockIdx, blockDim, gridDim;
namespace rnnc {
inline char* shared;
}

namespace emulation {

// A barrier of some lanes: the last to arrive lets all others go on.
struct Barrier {
  unsigned expected = 0, arrived = 0, turn = 0;
};
struct Phases {
  int arrivals = 0, pending = 0, phase = 0;
  long bytes = 0;
  void settle() {
    if (pending || bytes) return;
    ++phase;
    pending = arrivals;
  }
};
struct Block {
  Dim index;
  unsigned rank;
  std::vector<char> memory;
  Barrier all;
  std::vector<Barrier> warps;
  std::map<int, Barrier> named;
  std::map<unsigned, Phases> phases;  // mbarriers, by address
  std::vector<unsigned> words;        // what lanes exchange, 16 each
};
constexpr int kStackBytes = 256 << 10;
struct Lane {
  ucontext_t context;
  // Not cleared: of a stack only the pages that a lane touches take memory.
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  Block* block;
  unsigned thread;
  bool done;
};
inline ucontext_t scheduler;
inline std::vector<Lane> lanes;
inline std::vector<Block> blocks;
inline std::map<unsigned, Barrier> clusters;
inline unsigned cluster_size, at;  // the lane that runs
inline unsigned current;           // its thread
inline Block* own;
inline std::function<void()>* body;

inline void yield() { swapcontext(&lanes[at].context, &scheduler); }
// Whether all have come.
inline bool arrive(Barrier& barrier) {
  if (++barrier.arrived < barrier.expected) return false;
  barrier.arrived = 0;
  ++barrier.turn;
  return true;
}
inline void wait(Barrier& barrier) {
  const unsigned turn = barrier.turn;
  if (arrive(barrier)) return;
  while (barrier.turn == turn) yield();
}
inline Barrier& warp() { return own->warps[current / 32]; }
inline unsigned* words_of(unsigned lane) { return &own->words[(current / 32 * 32 + lane) * 16]; }
inline Barrier& cluster() { return clusters[(own - blocks.data()) / cluster_size]; }
inline Barrier& named_barrier(int number, unsigned count) {
  Barrier& barrier = own->named[number];
  barrier.expected = count;
  return barrier;
}
inline void named(int number, unsigned count) { wait(named_barrier(number, count)); }
inline void arrive(int number, unsigned count) { arrive(named_barrier(number, count)); }
inline Block& peer(unsigned rank) {
  return blocks[(own - blocks.data()) / cluster_size * cluster_size + rank];
}

// use() with what each lane of the warp gives, by its number.
template <int count, typename Body>
void exchange(const unsigned (&given)[count], const Body& use) {
  memcpy(words_of(current % 32), given, sizeof given);
  wait(warp());
  use();
  wait(warp());
}

inline void run_lane() {
  (*body)();
  lanes[at].done = true;
}
template <typename Arguments>
void launch(void (*kernel)(Arguments), const void* arguments, Dim grid, unsigned threads,
            unsigned cluster_blocks) {
  Arguments a;
  memcpy(&a, arguments, sizeof a);
  std::function<void()> run = [&] { kernel(a); };
  body = &run;
  blockDim = {threads, 1, 1};
  gridDim = grid;
  cluster_size = cluster_blocks;
  blocks.assign(grid.x * grid.y * grid.z, {});
  lanes.resize(blocks.size() * threads);
  clusters.clear();
  for (unsigned b = 0; b < blocks.size(); ++b) {
    Block& block = blocks[b];
    block.index = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    block.rank = b % cluster_size;
    block.memory.assign(256 << 10, char(0xff));
    block.all.expected = threads;
    block.warps.assign(threads / 32, {32});
    block.words.assign(threads * 16, 0);
    clusters[b / cluster_size].expected = threads * cluster_size;
    for (unsigned i = 0; i < threads; ++i) {
      Lane& lane = lanes[b * threads + i];
      lane.block = &block;
      lane.thread = i;
      lane.done = false;
      getcontext(&lane.context);
      lane.context.uc_stack = {lane.stack.get(), 0, kStackBytes};
      lane.context.uc_link = &scheduler;
      makecontext(&lane.context, run_lane, 0);
    }
  }
  for (bool any = true; any;) {
    any = false;
    for (at = 0; at < lanes.size(); ++at) {
      Lane& lane = lanes[at];
      if (lane.done) continue;
      any = true;
      own = lane.block;
      current = lane.thread;
      threadIdx = {current, 0, 0};
      blockIdx = own->index;
      // Aligned as the arrays of a block are.
      rnnc::shared = reinterpret_cast<char*>(
          (reinterpret_cast<unsigned long long>(own->memory.data()) + 127) / 128 * 128);
      swapcontext(&scheduler, &lane.context);
    }
  }
  // Each kernel is a library with lanes of its own.
  lanes.clear();
  blocks.clear();
}

}  // namespace emulation

inline void __syncthreads() { emulation::wait(emulation::own->all); }
inline void __syncwarp() { emulation::wait(emulation::warp()); }
inline void __threadfence() {}
inline void __nanosleep(unsigned) {}
inline unsigned atomicExch(unsigned* to, unsigned value) { return std::exchange(*to, value); }
template <typename T>
T shuffle(T value, unsigned from) {
  unsigned given[2] = {};
  memcpy(given, &value, sizeof value);
  T found;
  emulation::exchange(given, [&] { memcpy(&found, emulation::words_of(from), sizeof found); });
  return found;
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return shuffle(value, emulation::current % 32 ^ mask);
}
template <typename T>
T __shfl_sync(unsigned, T value, int from, int width = 32) {
  return shuffle(value, emulation::current % 32 / width * width + from % width);
}
inline bool __any_sync(unsigned, bool value) {
  bool any = false;
  emulation::exchange({unsigned{value}}, [&] {
    for (int lane = 0; lane < 32; ++lane) any |= emulation::words_of(lane)[0] != 0;
  });
  return any;
}
inline unsigned __ballot_sync(unsigned, bool value) {
  unsigned bits = 0;
  emulation::exchange({unsigned{value}}, [&] {
    for (int lane = 0; lane < 32; ++lane) bits |= emulation::words_of(lane)[0] << lane;
  });
  return bits;
}
template <typename T, typename Join>
T reduce(T value, const Join& join) {
  T found = value;
  emulation::exchange({static_cast<unsigned>(value)}, [&] {
    for (int lane = 0; lane < 32; ++lane) {
      found = join(found, static_cast<T>(emulation::words_of(lane)[0]));
    }
  });
  return found;
}
inline int __reduce_min_sync(unsigned, int value) {
  return reduce(value, [](int a, int b) { return a < b ? a : b; });
}
inline int __reduce_max_sync(unsigned, int value) {
  return reduce(value, [](int a, int b) { return a < b ? b : a; });
}
inline unsigned __reduce_or_sync(unsigned, unsigned value) {
  return reduce(value, [](unsigned a, unsigned b) { return a | b; });
}
inline int __ffs(unsigned bits) { return __builtin_ffs(bits); }
template <typename T>
T __ldg(const T* from) {
  return *from;
}
