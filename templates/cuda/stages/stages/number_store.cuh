// NumberStore: stores the numbers of a head that the forward saves, each row's by one thread.
#pragma once

#include "lib/cell/mask.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/stages/arguments.cuh"
#include "lib/stages/item.cuh"
#include "lib/stages/predicated.cuh"

namespace rnnc {

// A thread has `rows` batch rows.
template <int rows>
struct NumberStore {
  int own[rows];   // whether this thread stores the row's
  real* at[rows];  // of the step whose numbers are stored next
  int64 stride;    // to the step after it

  // Of the rows at first_place and after it, if the thread is the one that stores them. The first
  // step to store is step `first`. NOTE: addresses are kept, as in ResultStore, and `own` is pinned:
  // the compiler decided in each step again which thread stores, for 100 cycles.
  RNNC_MEMBER void begin(const StagedForwardArguments& a, const TimeOrder& time, int64 head,
                         int64 first_place, bool is_one, int first = 0) {
    const int64 step_size = a.batch * a.heads * Cell::kSavedStatistics;
    stride = pin(time.stride(step_size));
    repeat<rows>([&](int j) {
      const int64 place = first_place + j;
      const bool is_own = is_one && place < a.batch && a.statistics;
      const int64 row = is_own ? row_at(a, place) : 0;
      own[j] = pin(int{is_own});
      at[j] = a.statistics + time.at(first) * step_size +
              (row * a.heads + head) * Cell::kSavedStatistics;
    });
  }
  // Of the next step, if it is to be stored.
  RNNC_MEMBER void store(const Numbers (&number)[rows], bool holds = true) {
    if constexpr (Cell::kSavedStatistics > 0) {
      repeat<rows>([&](int j) {
        repeat<Cell::kSavedStatistics>([&](int k) {
          Vec<real, 1> vec;
          vec.set({number[j][kSavedStatistic[k]]});
          st_global_if(own[j] && holds, at[j] + k, vec.words);
        });
        at[j] += stride;
      });
    }
  }
};

}  // namespace rnnc
