// What a call hands over, and the scratch memory of one task.
//
// B batch rows, T steps, N heads, D units per head. A task is one head, one tile of batch rows and
// one part of the units. If all units are one part, a task runs through all steps by itself; else
// tasks wait for each other at every step. Rows of scratch memory are padded to whole panels; the
// caller's tensors are read and written in place.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "vectors.h"

namespace rnnc {

// Mirrored field by field in runtime/cpu/arguments.py, where every field takes eight bytes.
struct Sizes {
  int64_t steps, batch, heads, dim;
  int64_t tile_rows;   // batch rows per task
  int64_t part_units;  // units per task: a multiple of kPanel, or all
  int64_t threads;
};

// How many gates have a gradient: all but inputs of the cell whose gradient nobody asks for.
#ifdef RNNC_GRADIENTS
constexpr int kGradients = RNNC_GRADIENTS;
#else
constexpr int kGradients = kGates;
#endif

#ifdef RNNC_UNWEIGHTED
// The inputs of the cell that no weight multiplies.
struct UnweightedArguments {
  const real* values[kUnweighted];  // [T][B][N][D] each, by the strides below
  int64_t strides[kUnweighted][4];  // of time, batch, head, unit; 0 where all have one value
};
#endif

struct ForwardArguments {
  Sizes sizes;
  int64_t wx_strides[5];  // of time, batch, head, unit, gate, in elements
  const real* wx;         // [T][B][N][D][input gates], by the strides above, or null:
  // then the kernel multiplies features by W.
  const real* x;          // [T][B][features], by the strides below; features are adjacent
  int64_t x_strides[2];   // of time and batch, in elements
  int64_t features;
  const real* W;          // [input gates][N][D][features], or null
  int64_t W_strides[2];   // of gate and head; a matrix has no gaps
  const real* R;          // [dense pairs][N][D out][D in], or null if there is no product to make
  int64_t R_strides[2];   // of dense pair and head, in elements; a matrix has no gaps
  const real* product;    // for one step alone: R times states, by the strides below, or null;
                          // without R and product, the states that R multiplies are zero
  int64_t product_strides[3];  // of batch, dense pair, head, in elements; units are adjacent
  const real* R_diag;     // [diagonal pairs][N][D]
  const real* b;          // [bias gates][N][D], or null
  const real* params;     // [params][N][D]
  const real* initial[kStates];  // [B][N][D] each
  real* states[kStates];         // [T][B][N][D] each, by the strides below
  int64_t step_strides[kStates];  // of time, in elements; 0 where only `last` is kept, there
  real* last[kStates];           // [B][N][D] each, or null where nobody reads it
  real* kept;                    // [T][B][N][kSaved][D], or null where no backward follows
#ifdef RNNC_UNWEIGHTED
  UnweightedArguments unweighted;
#endif
};

struct BackwardArguments {
  Sizes sizes;
  const real* R;  // or null if the caller adds R^T times d_gates to d_initial
  int64_t R_strides[2];
  const real* R_diag;
  const real* params;
  const real* initial[kStates];
  const real* states[kStates];
  const real* kept;
  const real* d_states[kStates];  // [T][B][N][D] each, or null for zero
  const real* d_last[kStates];    // [B][N][D] each, or null for zero
  real* d_gates;                  // [T][B][N][kGradients][D]
  real* d_initial[kStates];       // [B][N][D] each
  // Sums over steps and rows, a slice a tile of the batch: summed by the caller in a fixed order.
  real* d_bias;      // [tiles][kGradients][N][D]
  real* d_params;    // [tiles][kParams][N][D]
  real* d_diagonal;  // [tiles][kDiagonalPairs][N][D]
#ifdef RNNC_UNWEIGHTED
  UnweightedArguments unweighted;
#endif
};

// The recurrent matrix of a dense pair and head.
template <class Arguments>
inline const real* matrix_of(const Arguments& a, int64_t pair, int64_t head) {
  return a.R + pair * a.R_strides[0] + head * a.R_strides[1];
}

// Aligned memory that is given back at the end of its scope; zeroed if wanted, null if empty.
template <typename T>
class ScratchOf {
 public:
  explicit ScratchOf(int64_t count, bool zeroed = true) {
    if (count == 0) return;
    const size_t bytes = ((size_t)count * sizeof(T) / 64 + 1) * 64;
    data_ = (T*)std::aligned_alloc(64, bytes);
    if (data_ == nullptr) std::abort();
    if (zeroed) std::memset(data_, 0, bytes);
  }
  ~ScratchOf() { std::free(data_); }
  ScratchOf(const ScratchOf&) = delete;
  ScratchOf& operator=(const ScratchOf&) = delete;
  operator T*() { return data_; }

 private:
  T* data_ = nullptr;
};
using Scratch = ScratchOf<real>;

struct KeptBlock {
  explicit KeptBlock(int64_t count) : count(count), memory(count, false) {}
  const int64_t count;
  Scratch memory;
};
// Of this library alone: an inline variable would be that of all loaded libraries.
static std::atomic<KeptBlock*> kept_block{nullptr};

// Memory that a library keeps from call to call, up to a bound: pages of fresh memory cost as much
// as packing a matrix into them. Where calls run at the same time, one of them has the kept memory.
class KeptMemory {
 public:
  explicit KeptMemory(int64_t count) : block_(kept_block.exchange(nullptr)) {
    if (block_ != nullptr && block_->count >= count) return;
    delete block_;
    block_ = new KeptBlock(count);
  }
  ~KeptMemory() { delete (block_->count <= kMost ? kept_block.exchange(block_) : block_); }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  operator real*() { return block_->memory; }

 private:
  static constexpr int64_t kMost = (32 << 20) / (int64_t)sizeof(real);
  KeptBlock* block_;
};

template <typename T>
RNNC_INLINE void add_row(const real* __restrict from, T* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t d = 0; d < n; ++d) to[d] += from[d];
}

RNNC_INLINE void sum_rows(const real* __restrict a, const real* __restrict b, real* __restrict to,
                          int64_t n) {
#pragma omp simd
  for (int64_t d = 0; d < n; ++d) to[d] = a[d] + b[d];
}

RNNC_INLINE void add_product(const real* __restrict a, const real* __restrict b,
                             real* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t d = 0; d < n; ++d) to[d] += a[d] * b[d];
}

// One head, some batch rows and some units.
struct Task {
  int64_t head, first_row, rows, tile, first_unit, units;
};

RNNC_INLINE int64_t tiles(const Sizes& s) {
  return (s.batch + s.tile_rows - 1) / s.tile_rows;
}

RNNC_INLINE int64_t unit_parts(const Sizes& s) {
  return (s.dim + s.part_units - 1) / s.part_units;
}

RNNC_INLINE int64_t tasks(const Sizes& s) { return tiles(s) * s.heads * unit_parts(s); }

RNNC_INLINE Task task_of(const Sizes& s, int64_t index) {
  const int64_t parts = unit_parts(s), head_tile = index / parts, tile = head_tile / s.heads;
  const int64_t row = tile * s.tile_rows, unit = index % parts * s.part_units;
  return {head_tile % s.heads,        row,  smaller(s.tile_rows, s.batch - row), tile, unit,
          smaller(s.part_units, s.dim - unit)};
}

// The task's units of rows of [count][N][D], each row padded.
static void load_units(const real* from, int64_t count, const Task& task, const Sizes& sizes,
                       real* to, int64_t width) {
  for (int64_t i = 0; i < count; ++i) {
    copy_row(from + (i * sizes.heads + task.head) * sizes.dim + task.first_unit, to + i * width,
             task.units);
  }
}

#ifdef RNNC_UNWEIGHTED
// The cell's inputs of a row and a task's units, to[input][width].
static void load_unweighted(const UnweightedArguments& from, const Task& task, int64_t time,
                            int64_t row, real* to, int64_t width) {
  for (int i = 0; i < kUnweighted; ++i) {
    const int64_t* strides = from.strides[i];
    const int64_t unit_stride = strides[3];
    const real* values = from.values[i] + time * strides[0] + row * strides[1] +
                         task.head * strides[2] + task.first_unit * unit_stride;
    for (int64_t d = 0; d < task.units; ++d) to[i * width + d] = values[d * unit_stride];
  }
}
#endif

// Where the steps of a kernel lie in tensors over time. A kernel counts steps in the order in which
// they run. The generated source may define RNNC_REVERSE: then the cell runs from the last step in
// memory to the first. Or RNNC_REVERSE_HALF: then the second half of the heads does, which is the
// other direction of a layer.
struct TimeOrder {
  bool reversed;
  int64_t last;  // step in memory

  TimeOrder(const Sizes& sizes, int64_t head) : reversed(false), last(sizes.steps - 1) {
#if defined(RNNC_REVERSE_HALF)
    reversed = 2 * head >= sizes.heads;
#elif defined(RNNC_REVERSE)
    reversed = true;
#endif
    (void)head;
  }
  // The place in memory of a step.
  int64_t at(int64_t step) const { return reversed ? last - step : step; }
};

// Where the states before `step` begin, for all rows: those of the step before, or the initial.
template <class States>
RNNC_INLINE const real* states_before(int64_t step, const TimeOrder& time, const real* initial,
                                      States states, int64_t step_stride) {
  return step > 0 ? states + time.at(step - 1) * step_stride : initial;
}

#ifndef RNNC_STAGES
constexpr int kStatePairs = kDensePairs, kStateDiagonals = kDiagonalPairs;
#endif

// Where the kept values of a row begin. `place`: where its head's units begin in a tensor over time.
RNNC_INLINE int64_t kept_place(int64_t place, int64_t dim) {
#ifdef RNNC_STAGES
  return place / dim * (kSaved * dim + kSavedStatistics);
#else
  (void)dim;
  return place * kSaved;
#endif
}

// Whether a call is worth waking other threads: below some microseconds of arithmetic it is not.
// A pointwise map takes as long as some hundred multiplications.
RNNC_INLINE bool worth_threads(const Sizes& s, bool multiplies) {
  const int64_t unit_steps = s.steps * s.batch * s.heads * s.dim;
  return s.threads > 1 && unit_steps * ((multiplies ? kDensePairs * s.dim : 0) + 100) > 400000;
}

}  // namespace rnnc
