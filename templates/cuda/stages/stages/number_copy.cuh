// NumberCopy: copies of the numbers of a head that the forward saved, several steps ahead.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/ptx/cp_async.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// Of `rows` batch rows, by `threads` threads.
template <int rows, int threads>
struct NumberCopy {
  static constexpr int kCount = rows * Cell::kSavedStatistics;
  static constexpr int kCopies = ceil_div(kCount, threads);
  static constexpr int kBytes = round_up(kCount * static_cast<int>(sizeof(real)), 16);  // per step

  const char* from[at_least_one(kCopies)];  // at the step that is copied next
  int to[at_least_one(kCopies)];            // -1: none
  int64 stride;                             // to the step after that, in bytes

  // `thread` is one of those that copy, from step t on and downwards.
  RNNC_MEMBER void begin(const StagedBackwardArguments& a, const TimeOrder& time, int t, int64 head,
                         int64 first_row, int thread) {
    const int64 step_bytes = a.batch * a.heads * Cell::kSavedStatistics * int64{sizeof(real)};
    stride = -time.stride(step_bytes);
    repeat<kCopies>([&](int i) {
      const int piece = thread + i * threads;
      const int row = piece / at_least_one(Cell::kSavedStatistics);
      const int number = piece % at_least_one(Cell::kSavedStatistics);
      const int64 place = first_row + row < a.batch ? first_row + row : 0;
      to[i] = pin(piece < kCount ? piece * static_cast<int>(sizeof(real)) : -1);
      from[i] = reinterpret_cast<const char*>(
                    a.statistics + (row_at(a, place) * a.heads + head) * Cell::kSavedStatistics +
                    number) +
                time.at(t) * step_bytes;
    });
  }
  // Of the next step, if there is one.
  RNNC_MEMBER void issue(u32 stage, bool exists) {
    repeat<kCopies>([&](int i) {
      cp_async_if<sizeof(real), 0>(exists ? to[i] : -1, stage + to[i], from[i]);
      from[i] += stride;
    });
  }
  static RNNC_MEMBER void read(Numbers& number, const char* stage, int row) {
    repeat<Cell::kSavedStatistics>([&](int k) {
      number[k] = reinterpret_cast<const real*>(stage)[row * Cell::kSavedStatistics + k];
    });
  }
};

}  // namespace rnnc
