// The CUDA built-ins that the library uses, for editors on machines without the CUDA toolkit.
//
// compile_flags.txt includes this file ahead of any header. NVRTC defines these names itself.
#pragma once

#define __device__
#define __global__
#define __shared__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

using size_t = decltype(sizeof 0);

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
__device__ uint4 make_uint4(unsigned, unsigned, unsigned, unsigned);
__device__ float2 make_float2(float, float);
__device__ float4 make_float4(float, float, float, float);

struct Dim3 {
  unsigned x, y, z;
};
extern const __device__ Dim3 threadIdx, blockIdx, blockDim, gridDim;

__device__ void __syncthreads();
__device__ void __syncwarp(unsigned mask = ~0u);
__device__ void __threadfence();
__device__ void __threadfence_system();
__device__ void __nanosleep(unsigned);
__device__ int __any_sync(unsigned, int);
__device__ unsigned __ballot_sync(unsigned, int);
__device__ int __reduce_max_sync(unsigned, int);
__device__ int __reduce_min_sync(unsigned, int);
__device__ unsigned __reduce_or_sync(unsigned, unsigned);
__device__ int __ffs(int);
template <typename T>
__device__ T __shfl_sync(unsigned, T, int, int width = 32);
template <typename T>
__device__ T __shfl_xor_sync(unsigned, T, int, int width = 32);
template <typename T>
__device__ T __ldg(const T*);
__device__ unsigned atomicExch(unsigned*, unsigned);
__device__ size_t __cvta_generic_to_shared(const void*);
__device__ void* __cvta_shared_to_generic(size_t);

__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ float __int_as_float(int);
__device__ double __longlong_as_double(long long);
__device__ double __hiloint2double(int, int);
__device__ int __double2loint(double);
__device__ int __double2hiint(double);

extern "C" {
__device__ void* memcpy(void*, const void*, size_t);
__device__ void* memset(void*, int, size_t);
__device__ float expf(float), expm1f(float), logf(float), log1pf(float), tanhf(float), fabsf(float);
__device__ float sqrtf(float), sinf(float), cosf(float), erff(float), fmaf(float, float, float);
__device__ float fmaxf(float, float), fminf(float, float);
__device__ float floorf(float), ceilf(float), truncf(float), rintf(float), fmodf(float, float);
__device__ float tanf(float), atanf(float), atan2f(float, float), sinhf(float), coshf(float);
__device__ float asinhf(float), log2f(float), exp2f(float), powf(float, float);
__device__ double exp(double), expm1(double), log(double), log1p(double), tanh(double);
__device__ double fabs(double), sqrt(double), sin(double), cos(double), erf(double);
__device__ double floor(double), ceil(double), trunc(double), rint(double), fmod(double, double);
__device__ double tan(double), atan(double), atan2(double, double), sinh(double), cosh(double);
__device__ double asinh(double), log2(double), exp2(double), pow(double, double);
}
__device__ unsigned max(unsigned, unsigned);
