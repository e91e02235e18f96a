// What a call hands over, and the scratch memory of one task.
//
// B batch rows, T steps, N heads, D units a head. A task is one head and one tile of batch rows:
// it runs through all steps by itself. Rows of its scratch memory are padded to whole panels; the
// caller's tensors are read and written in place.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace rnnc {

// The distance from a step to the one that runs after it, in a tensor of all steps. Steps count in
// the order in which they run, and a pointer to such a tensor points to the step that runs first:
// in reversed time, to the last one of the tensor.
RNNC_INLINE int64_t time_stride(int64_t step_size) {
#ifdef RNNC_REVERSE
  return -step_size;
#else
  return step_size;
#endif
}

// Mirrored field by field in runtime/cpu/arguments.py.
struct Sizes {
  int64_t steps, batch, heads, dim;
  int64_t tile_rows;  // batch rows a task
  int64_t threads;
};

struct ForwardArguments {
  Sizes sizes;
  int64_t wx_strides[5];  // of running time, batch, head, unit, gate, in elements
  const real* wx;         // [T][B][N][D][input gates], by the strides above
  const real* R;          // [dense pairs][N][D out][D in]
  const real* R_diag;     // [diagonal pairs][N][D]
  const real* b;          // [bias gates][N][D], or null
  const real* params;     // [params][N][D]
  const real* initial[kStates];  // [B][N][D] each
  real* states[kStates];         // [T][B][N][D] each
  real* last[kStates];           // [B][N][D] each
  real* kept;                    // [T][B][N][kSaved][D], or null where no backward follows
};

struct BackwardArguments {
  Sizes sizes;
  const real* R;
  const real* R_diag;
  const real* params;
  const real* initial[kStates];
  const real* states[kStates];
  const real* kept;
  const real* d_states[kStates];  // [T][B][N][D] each, or null for zero
  const real* d_last[kStates];    // [B][N][D] each, or null for zero
  real* d_gates;                  // [T][B][N][kGates][D]
  real* d_initial[kStates];       // [B][N][D] each
  // Sums over steps and rows, a slice a tile of the batch: summed by the caller in a fixed order.
  real* d_bias;      // [tiles][kGates][N][D]
  real* d_params;    // [tiles][kParams][N][D]
  real* d_diagonal;  // [tiles][kDiagonalPairs][N][D]
};

// Aligned, zeroed memory that is given back at the end of its scope.
template <typename T>
class ScratchOf {
 public:
  explicit ScratchOf(int64_t count) {
    const size_t bytes = ((size_t)count * sizeof(T) / 64 + 1) * 64;
    data_ = (T*)std::aligned_alloc(64, bytes);
    if (data_ == nullptr) std::abort();
    std::memset(data_, 0, bytes);
  }
  ~ScratchOf() { std::free(data_); }
  ScratchOf(const ScratchOf&) = delete;
  ScratchOf& operator=(const ScratchOf&) = delete;
  operator T*() { return data_; }

 private:
  T* data_;
};
using Scratch = ScratchOf<real>;

RNNC_INLINE void copy_row(const real* from, real* to, int64_t n) {
  std::memcpy(to, from, (size_t)n * sizeof(real));
}

template <typename T>
RNNC_INLINE void add_row(const real* __restrict from, T* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t d = 0; d < n; ++d) to[d] += from[d];
}

RNNC_INLINE void add_product(const real* __restrict a, const real* __restrict b,
                             real* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t d = 0; d < n; ++d) to[d] += a[d] * b[d];
}

// Rows of [count][N][D] for one head, each padded.
static void load_head(const real* from, int64_t count, int64_t head, const Sizes& sizes, real* to,
                      int64_t width) {
  for (int64_t i = 0; i < count; ++i) {
    copy_row(from + (i * sizes.heads + head) * sizes.dim, to + i * width, sizes.dim);
  }
}

// Where the states before `step` begin, for all rows: those of the step before, or the initial.
template <class States>
RNNC_INLINE const real* states_before(int64_t step, const real* initial, States states,
                                      int64_t step_stride) {
  return step > 0 ? states + (step - 1) * step_stride : initial;
}

// One head and tile of the batch.
struct Task {
  int64_t head, first_row, rows, tile;
};

// Whether a call is worth waking other threads: below some microseconds of arithmetic it is not.
RNNC_INLINE bool worth_threads(const Sizes& s) {
  const int64_t unit_steps = s.steps * s.batch * s.heads * s.dim;
  return s.threads > 1 && unit_steps * (kDensePairs * s.dim + 16) > 200000;
}

RNNC_INLINE int64_t tiles(const Sizes& s) {
  return (s.batch + s.tile_rows - 1) / s.tile_rows;
}

RNNC_INLINE Task task_of(const Sizes& s, int64_t index) {
  const int64_t tile = index / s.heads;
  const int64_t first = tile * s.tile_rows;
  const int64_t left = s.batch - first;
  return {index % s.heads, first, left < s.tile_rows ? left : s.tile_rows, tile};
}

}  // namespace rnnc
