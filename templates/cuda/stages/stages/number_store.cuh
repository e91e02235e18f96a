// NumberStore: stores the numbers of a head that the forward saves, each row's by one thread.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/item.cuh"

namespace rnnc {

// A thread has `rows` batch rows.
template <int rows>
struct NumberStore {
  int64 offset[rows];  // in a step; -1: not this thread's
  real* at;            // of the step whose numbers are stored next

  // Of the rows at first_place and after it, if the thread is the one that stores them.
  RNNC_MEMBER void begin(const StagedForwardArguments& a, const TimeOrder& time, int64 head,
                         int64 first_place, bool is_one) {
    at = a.statistics ? a.statistics + time.at(0) * (a.batch * a.heads * Cell::kSavedStatistics)
                      : nullptr;
    repeat<rows>([&](int j) {
      const int64 place = first_place + j;
      const bool own = is_one && place < a.batch && a.statistics;
      offset[j] = own ? (row_at(a, place) * a.heads + head) * Cell::kSavedStatistics : -1;
    });
  }
  // Of the next step.
  RNNC_MEMBER void store(const StagedForwardArguments& a, const TimeOrder& time,
                         const Numbers (&number)[rows]) {
    if constexpr (Cell::kSavedStatistics > 0) {
      repeat<rows>([&](int j) {
        if (offset[j] < 0) return;
        repeat<Cell::kSavedStatistics>(
            [&](int k) { at[offset[j] + k] = number[j][kSavedStatistic[k]]; });
      });
      at += time.stride(a.batch * a.heads * Cell::kSavedStatistics);
    }
  }
};

}  // namespace rnnc
