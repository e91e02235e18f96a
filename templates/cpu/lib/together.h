// Tasks of all threads that wait for each other at every step.
#pragma once

#include <sched.h>

#include <atomic>
#include <new>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "layout.h"

namespace rnnc {

RNNC_INLINE int64_t thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

RNNC_INLINE int64_t thread_count() {
#ifdef _OPENMP
  return omp_get_num_threads();
#else
  return 1;
#endif
}

// All threads of a parallel region meet here. A thread waits actively for some microseconds; then
// it offers its core, since a thread that it waits for may have none.
class StepBarrier {
 public:
  // meeting: 1, 2, … in this order, the same in all threads.
  void wait(int64_t meeting) {
    const int64_t wanted = meeting * thread_count();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == wanted) return;
    for (int tries = 0; arrived_.load(std::memory_order_acquire) < wanted; ++tries) {
      if (tries > kActiveTries) sched_yield();
    }
  }

 private:
  static constexpr int kActiveTries = 10000;
  std::atomic<int64_t> arrived_{0};
};

// The tasks of one thread.
template <class T>
class OwnTasks {
 public:
  template <class Arguments, class Packed>
  OwnTasks(const Arguments& a, const Packed& packed)
      : memory_((tasks(a.sizes) / thread_count() + 1) * (int64_t)sizeof(T)) {
    for (int64_t i = thread_number(); i < tasks(a.sizes); i += thread_count()) {
      new (end()) T(a, task_of(a.sizes, i), packed);
      ++count_;
    }
  }
  ~OwnTasks() {
    for (T& task : *this) task.~T();
  }
  OwnTasks(const OwnTasks&) = delete;
  OwnTasks& operator=(const OwnTasks&) = delete;

  T* begin() { return (T*)(char*)memory_; }
  T* end() { return begin() + count_; }

 private:
  ScratchOf<char> memory_;
  int64_t count_ = 0;
};

}  // namespace rnnc
