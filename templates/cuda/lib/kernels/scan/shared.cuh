// Shared: what a block of a scan has in shared memory, and how its warps wait for each other.
#pragma once

#include "lib/kernels/scan/records.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc::scan {

constexpr int kParts = Plan::kParts, kChannels = kLanes / kParts;
static_assert(kParts == 1 || Plan::kSequential, "a map of steps is of 32 channels");
constexpr int kWarpSteps = kParts * Plan::kChunk;
constexpr int kTileSteps = Plan::kWarps * kWarpSteps;

// In shared memory: the maps of warps, that of the tile, those of groups of warps after the first
// group; and what is carried into the steps of each warp.
constexpr int kTileMap = Plan::kSequential ? 0 : Plan::kWarps;
constexpr int kMaps = Plan::kSequential ? 1 : Plan::kWarps + kGroups;
// What a kind of map has there.
template <typename Any>
struct SharedMaps;
template <>
struct SharedMaps<Map> {
  real offset[kMaps][at_least_one(kLinear)][kLanes];
  Factor column[kMaps][at_least_one(kLinear * kLinear)][kLanes];
  int exponent[kMaps][at_least_one(kLinear)][kLanes];

  RNNC_MEMBER void put(int to, int lane, const Map& map) {
    repeat<kLinear>([&](int j) {
      offset[to][j][lane] = map.offset[j];
      exponent[to][j][lane] = map.exponent[j];
      repeat<kLinear>([&](int i) { column[to][j * kLinear + i][lane] = map.column[j][i]; });
    });
  }
  RNNC_MEMBER void get(Map& map, int from, int lane) const {
    repeat<kLinear>([&](int j) {
      map.offset[j] = offset[from][j][lane];
      map.exponent[j] = exponent[from][j][lane];
      repeat<kLinear>([&](int i) { map.column[j][i] = column[from][j * kLinear + i][lane]; });
    });
  }
};
template <>
struct SharedMaps<MaxMap> {
  real bound[kMaps][at_least_one(kMaxima)][kLanes];
  Factor shift[kMaps][at_least_one(kMaxima)][kLanes];

  RNNC_MEMBER void put(int to, int lane, const MaxMap& map) {
    repeat<kMaxima>([&](int i) {
      bound[to][i][lane] = map.bound[i];
      shift[to][i][lane] = map.shift[i];
    });
  }
  RNNC_MEMBER void get(MaxMap& map, int from, int lane) const {
    repeat<kMaxima>([&](int i) {
      map.bound[i] = bound[from][i][lane];
      map.shift[i] = shift[from][i][lane];
    });
  }
};
// Those of maxima make room for the others.
constexpr int kMaximaBytes = kMaxima ? static_cast<int>(sizeof(SharedMaps<MaxMap>)) : 0;
constexpr int kLinearBytes = kLinear ? static_cast<int>(sizeof(SharedMaps<Map>)) : 0;
constexpr int kMapBytes = kMaximaBytes > kLinearBytes ? kMaximaBytes : kLinearBytes;
// So do maps of tiles before.
constexpr int kMaximaAhead = kMaxima ? kMapsAhead<MaxMap> * kMapBytesAhead<MaxMap> : 0;
constexpr int kLinearAhead = kLinear ? kMapsAhead<Map> * kMapBytesAhead<Map> : 0;
constexpr int kAhead = kMaximaAhead > kLinearAhead ? kMaximaAhead : kLinearAhead;
struct Shared {
  alignas(8) char maps[kMapBytes + kAhead];
  real carried[Plan::kWarps][kCarried][kLanes];
};
// All lanes of the warp have come here, and what they have copied is there.
RNNC_INLINE void wait_for_copies() {
  cp_async_wait<0>();
  __syncwarp();
}
// All lanes of the warp have loaded their steps. NOTE: lanes behind the last channel read what that
// one reads, and results may take the memory of what is read.
RNNC_INLINE void wait_for_loads() {
  if (!Plan::kWholeWarps) __syncwarp();
}
// All warps have come here, each in its own way.
RNNC_INLINE void meet() {
  asm volatile("bar.sync %0, %1;" ::"r"(1), "n"(Plan::kWarps * kLanes) : "memory");
}
// The first warp of each group has come here.
RNNC_INLINE void meet_groups() {
  asm volatile("bar.sync %0, %1;" ::"r"(3), "n"(kGroups * kLanes) : "memory");
}
// The warps that load maps ahead have come here, and go on; and the last one, which waits for them.
constexpr int kAheadThreads = (kHelpers + 1) * kLanes;
RNNC_INLINE void give_ahead() {
  asm volatile("bar.arrive %0, %1;" ::"r"(4), "n"(kAheadThreads) : "memory");
}
RNNC_INLINE void wait_for_ahead() {
  if (kHelpers > 0) asm volatile("bar.sync %0, %1;" ::"r"(4), "n"(kAheadThreads) : "memory");
}
// Two warps have come here: the first and the last one, or a warp and the one before it, which does
// not wait.
constexpr int kBothWarps = 2 * kLanes;
static_assert(Plan::kWarps > 1, "two warps share the work between chunks");
constexpr int kTurns = 2;  // the first of these barriers
static_assert(!Plan::kSequential || kTurns + Plan::kWarps <= 16, "an SM has 16 barriers for a block");
RNNC_INLINE void wait_for_turn(int warp) {
  asm volatile("bar.sync %0, %1;" ::"r"(kTurns + warp), "n"(kBothWarps) : "memory");
}
RNNC_INLINE void give_turn(int warp) {
  asm volatile("bar.arrive %0, %1;" ::"r"(kTurns + warp), "n"(kBothWarps) : "memory");
}
RNNC_INLINE void meet_ends() {
  asm volatile("bar.sync %0, %1;" ::"r"(2), "n"(kBothWarps) : "memory");
}
constexpr int kStagedAt = round_up(static_cast<int>(sizeof(Shared)), 16);  // in a forward
RNNC_INLINE Shared& in_shared() { return *reinterpret_cast<Shared*>(shared); }

}  // namespace rnnc::scan
