// Sums over the parts of tensors, with their axes permuted and their elements converted: what a call
// does to weights and gradients besides its products. Several tensors per launch, one per block.y.
// RNNC_TO is the type of what is written: a unit of all types takes three times as long to compile.
namespace rnnc {
using real = float;  // of vectors without elements
}

#include "lib/ptx/vec.cuh"

namespace rnnc {

constexpr int kThreads = 256, kWide = 4, kMost = 16;
constexpr int kTile = 32;  // rows and columns that are transposed at once

// Mirrored by runtime/cuda/products/rearrange.py.
struct Job {
  const void* from;
  void* to;
  int64 converted;      // whether `Sums::Other` is read
  int64 way;            // how threads share the elements
  int64 parts;          // to = the sum of so many tensors
  int64 part;           // elements between them
  int64 sizes[3];       // of the outer axes
  int64 strides[3];     // of `from`
  int64 to_strides[3];  // of `to`
  int64 inner;          // elements of the last axis, which has no gaps in `to`
  int64 inner_stride;   // of `from`
};

// A thread takes one element, or kWide of the last axis, which has no gaps in `from` then; or a block
// transposes a tile of the last two axes, the first of which has none.
enum Way { kOne, kSeveral, kTransposed };

struct Jobs {
  Job jobs[kMost];
};

// Sums of elements that are kept in 4 bytes or more are taken in double.
template <typename To>
struct Sums {
  using Other = float;  // what is converted
  using Sum = float;
};

template <>
struct Sums<float> {
  using Other = double;
  using Sum = double;
};

template <>
struct Sums<double> {
  using Other = double;
  using Sum = double;
};

template <typename From, typename To, typename Sum, int n>
RNNC_INLINE void in_order(const Job& job) {
  const u32 inner = static_cast<u32>(job.inner / n);
  const u32 size1 = static_cast<u32>(job.sizes[1]), size2 = static_cast<u32>(job.sizes[2]);
  const u32 items = static_cast<u32>(job.sizes[0]) * size1 * size2 * inner;
  for (u32 i = blockIdx.x * kThreads + threadIdx.x; i < items; i += gridDim.x * kThreads) {
    const u32 row = i / inner, rows = row / size2;
    const u32 i0 = rows / size1, i1 = rows - i0 * size1, i2 = row - rows * size2;
    const int64 column = static_cast<int64>(i - row * inner) * n;
    const From* from = static_cast<const From*>(job.from) + i0 * job.strides[0] +
                       i1 * job.strides[1] + i2 * job.strides[2] +
                       (n == 1 ? column * job.inner_stride : column);
    To* to = static_cast<To*>(job.to) + i0 * job.to_strides[0] + i1 * job.to_strides[1] +
             i2 * job.to_strides[2] + column;
    Sum sums[n] = {};
#pragma unroll 4
    for (int64 part = 0; part < job.parts; ++part) {
      Vec<From, n> read;
      read.load(from + part * job.part);
      repeat<n>([&](int k) { sums[k] += read[k]; });
    }
    decltype(to_real(To{})) values[n];
    repeat<n>([&](int k) { values[k] = sums[k]; });
    Vec<To, n> written;
    written.set(values);
    written.store(to);
  }
}

template <typename From, typename To, typename Sum>
RNNC_INLINE void transposed(const Job& job, void* memory) {
  To* tile = static_cast<To*>(memory);
  const u32 rows = static_cast<u32>(job.sizes[2]), columns = static_cast<u32>(job.inner);
  const u32 down = (rows + kTile - 1) / kTile, across = (columns + kTile - 1) / kTile;
  const u32 size1 = static_cast<u32>(job.sizes[1]);
  const u32 tiles = static_cast<u32>(job.sizes[0]) * size1 * down * across;
  const u32 fast = threadIdx.x % kTile, slow = threadIdx.x / kTile;
  for (u32 i = blockIdx.x; i < tiles; i += gridDim.x) {
    const u32 matrix = i / (down * across), place = i - matrix * down * across;
    const u32 i0 = matrix / size1, i1 = matrix - i0 * size1;
    const u32 row = place / across * kTile, column = place % across * kTile;
    const From* from = static_cast<const From*>(job.from) + i0 * job.strides[0] +
                       i1 * job.strides[1] + row + fast;
    To* to = static_cast<To*>(job.to) + i0 * job.to_strides[0] + i1 * job.to_strides[1] + column +
             fast;
    for (u32 k = slow; k < kTile; k += kThreads / kTile) {
      if (row + fast >= rows || column + k >= columns) continue;
      Sum sum = {};
      for (int64 part = 0; part < job.parts; ++part)
        sum += to_real(from[part * job.part + (column + k) * job.inner_stride]);
      decltype(to_real(To{})) value = sum;
      tile[k * (kTile + 1) + fast] = to_element<To>(value);
    }
    __syncthreads();
    for (u32 k = slow; k < kTile; k += kThreads / kTile)
      if (column + fast < columns && row + k < rows)
        to[(row + k) * job.to_strides[2]] = tile[fast * (kTile + 1) + k];
    __syncthreads();
  }
}

template <typename From, typename To, typename Sum>
RNNC_INLINE void rearrange(const Job& job, void* memory) {
  if (job.way == kOne) return in_order<From, To, Sum, 1>(job);
  if (job.way == kSeveral) return in_order<From, To, Sum, kWide>(job);
  transposed<From, To, Sum>(job, memory);
}

}  // namespace rnnc

extern "C" __global__ void __launch_bounds__(rnnc::kThreads, 4)
rnnc_rearrange(const __grid_constant__ rnnc::Jobs given) {
  using namespace rnnc;
  __shared__ double tile[kTile * (kTile + 1)];
  using To = RNNC_TO;
  const Job& job = given.jobs[blockIdx.y];
  if (job.converted) return rearrange<Sums<To>::Other, To, Sums<To>::Sum>(job, tile);
  rearrange<To, To, Sums<To>::Sum>(job, tile);
}
