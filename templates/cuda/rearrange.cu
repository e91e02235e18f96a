// Sums over the parts of tensors, with their axes permuted and their elements converted: what a call
// does to weights and gradients besides its products. Several tensors per launch, one per block.y.
namespace rnnc {
using real = float;  // of vectors without elements
}

#include "lib/ptx/vec.cuh"

namespace rnnc {

constexpr int kThreads = 256, kWide = 4, kMost = 8;

// Mirrored by runtime/cuda/products/rearrange.py.
struct Job {
  const void* from;
  void* to;        // (sizes, inner), without gaps
  int64 kind;      // how elements are converted, and how many a thread takes
  int64 parts;     // to = the sum of so many tensors
  int64 part;      // elements between them
  int64 sizes[3];  // of the outer axes
  int64 strides[3];
  int64 inner;     // elements of the last axis, which has no gaps
};

struct Jobs {
  Job jobs[kMost];
};

// Sums of elements that are kept in 4 bytes or more are taken in double.
template <typename From, typename To, typename Sum, int n>
RNNC_INLINE void rearrange(const Job& job) {
  const u32 inner = static_cast<u32>(job.inner / n);
  const u32 size1 = static_cast<u32>(job.sizes[1]), size2 = static_cast<u32>(job.sizes[2]);
  const u32 items = static_cast<u32>(job.sizes[0]) * size1 * size2 * inner;
  for (u32 i = blockIdx.x * kThreads + threadIdx.x; i < items; i += gridDim.x * kThreads) {
    const u32 row = i / inner, rows = row / size2;
    const u32 i0 = rows / size1, i1 = rows - i0 * size1, i2 = row - rows * size2;
    const From* from = static_cast<const From*>(job.from) + i0 * job.strides[0] +
                       i1 * job.strides[1] + i2 * job.strides[2] + (i - row * inner) * n;
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
    written.store(static_cast<To*>(job.to) + static_cast<int64>(i) * n);
  }
}

template <int n>
RNNC_INLINE void run(const Job& job, int kind) {
  switch (kind) {
    case 0: return rearrange<float, float, double, n>(job);
    case 1: return rearrange<double, double, double, n>(job);
    case 2: return rearrange<double, float, double, n>(job);
    case 3: return rearrange<bfloat16, bfloat16, float, n>(job);
    case 4: return rearrange<float16, float16, float, n>(job);
    case 5: return rearrange<float, bfloat16, float, n>(job);
    case 6: return rearrange<float, float16, float, n>(job);
  }
}

}  // namespace rnnc

extern "C" __global__ void __launch_bounds__(rnnc::kThreads)
rnnc_rearrange(const __grid_constant__ rnnc::Jobs given) {
  const rnnc::Job& job = given.jobs[blockIdx.y];
  const int kind = static_cast<int>(job.kind >> 1);
  if (job.kind & 1) return rnnc::run<rnnc::kWide>(job, kind);
  rnnc::run<1>(job, kind);
}
