"""Single steps of a GPU on the CPU: their kernels as C++, with a thread for each lane of a warp.

What NVRTC would compile runs on addresses of tensors of the CPU, so that values of a step can be
compared without a GPU. The few headers of PTX have twins here.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rnnc.codegen.cuda.source import kernel_source
from rnnc.runtime.cuda.step import backward, forward, ready

_LANES = """
#pragma once
#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
using std::memcpy;
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __align__(n)
#define __grid_constant__
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 800
struct Dim { unsigned x, y, z; };
inline thread_local Dim threadIdx, blockIdx, blockDim;
struct Warp { std::barrier<> barrier{32}; double values[32]; };
inline thread_local Warp* warp;
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned lane = threadIdx.x % 32;
  warp->values[lane] = value;
  warp->barrier.arrive_and_wait();
  const T other = static_cast<T>(warp->values[lane ^ mask]);
  warp->barrier.arrive_and_wait();
  return other;
}
inline bool __any_sync(unsigned, bool value) { return value; }
template <typename Arguments>
void launch(void (*kernel)(Arguments), const void* arguments, Dim grid, unsigned threads,
            bool lanes) {
  Arguments a;
  memcpy(&a, arguments, sizeof a);
  blockDim = {threads, 1, 1};
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x)
      for (unsigned first = 0; first < threads; first += 32) {
        if (!lanes) {
          for (unsigned lane = 0; lane < 32; ++lane) {
            threadIdx = {first + lane, 0, 0}, blockIdx = {x, y, 0};
            kernel(a);
          }
          continue;
        }
        Warp shared;
        std::vector<std::thread> all;
        for (unsigned lane = 0; lane < 32; ++lane)
          all.emplace_back([&, lane] {
            threadIdx = {first + lane, 0, 0}, blockIdx = {x, y, 0}, blockDim = {threads, 1, 1};
            warp = &shared;
            kernel(a);
            shared.barrier.arrive_and_drop();
          });
        for (auto& thread : all) thread.join();
      }
}
"""
_TWINS = {
    "lib/ptx/element.cuh": """
#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
inline float to_real(float x) { return x; }
inline double to_real(double x) { return x; }
template <typename T> T to_element(double x) { return static_cast<T>(x); }
}
""",
    "lib/ptx/vec.cuh": """
#pragma once
#include "lib/ptx/element.cuh"
namespace rnnc {
template <typename T, int n>
struct Vec {
  T values[n];
  void load(const void* from) { memcpy(values, from, sizeof values); }
  void store(void* to) const { memcpy(to, values, sizeof values); }
  T operator[](int i) const { return values[i]; }
  void set(const T (&from)[n]) { memcpy(values, from, sizeof values); }
};
template <typename T>
struct Vec<T, 0> {
  void load(const void*) {}
  void store(void*) const {}
  T operator[](int) const { return 0; }
  void set(const T (&)[1]) {}
};
}
""",
    "lib/ptx/math.cuh": """
#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
inline real literal(double x) { return static_cast<real>(x); }
template <int n> real power(real x) { return std::pow(x, n); }
using std::exp, std::expm1, std::log, std::log1p, std::tanh, std::abs, std::sqrt, std::sin;
using std::cos, std::erf;
inline float tanh_approx(float x) { return std::tanh(x); }
inline real sigmoid(real x) { return 1 / (1 + std::exp(-x)); }
}
""",
    "lib/ptx/ld_st.cuh": "#pragma once\n",
}
_DTYPES = {"float32": np.float32, "float64": np.float64}


def _library(source: Any, folder: Path) -> Any:
    """The kernel of a source as a function of arguments, grid and threads."""
    root = folder / source.digest[:16]
    plan = source.plan
    (name,) = plan.kernel_names
    for path, text in {**dict(source.headers), **_TWINS}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    # Names of std would hide those of the cell's functions; static assertions on sizes stay.
    code = source.code.replace('extern "C" __global__ void', "static void")
    lanes = "true" if plan.rows else "false"
    code = f"{_LANES}{code}" + (
        f'extern "C" void run(const void* arguments, unsigned x, unsigned y, unsigned threads) {{\n'
        f"  launch({name}, arguments, Dim{{x, y, 1}}, threads, {lanes});\n}}\n"
    )
    (root / "kernel.cpp").write_text(code)
    made = subprocess.run(
        "g++ -std=c++20 -O1 -w -shared -fPIC -pthread -I . kernel.cpp -o kernel.so".split(),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[:3000]
    return ctypes.CDLL(str(root / "kernel.so"))


class Numpy:
    """The products of `Gemm` by numpy, on addresses."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = np.dtype(_DTYPES[str(dtype).removeprefix("torch.")])

        self.lock = nullcontext()

    def at(self, *_: int) -> None: ...

    def _matrix(self, at: tuple[int, int], rows: int, columns: int, head: int, apart: int) -> Any:
        address, pitch = at
        size = self._dtype.itemsize
        count = (rows - 1) * pitch + columns
        start = address + head * apart * size
        memory = (ctypes.c_char * (count * size)).from_address(start)
        flat = np.frombuffer(memory, self._dtype)
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (pitch * size, size))

    def _each(self, many: Any) -> Iterator[tuple[int, int, int, int]]:
        heads, *apart = many or (1, 0, 0, 0)
        return ((head, *apart) for head in range(heads))

    def forward(self, rows, inner, columns, a, b, to, many=None):
        for head, first, second, third in self._each(many):
            factor = self._matrix(a, rows, inner, head, first)
            weights = self._matrix(b, columns, inner, head, second)
            self._matrix(to, rows, columns, head, third)[:] = factor @ weights.T

    def backward(self, rows, inner, columns, a, b, to, many=None, *, sums=False, add=False):
        for head, first, second, third in self._each(many):
            factor = self._matrix(a, rows, inner, head, first)
            weights = self._matrix(b, inner, columns, head, second)
            result = self._matrix(to, rows, columns, head, third)
            result[:] = result * add + factor @ weights if add else factor @ weights

    def weights(self, rows, inner, columns, a, b, to, many=None):
        for head, first, second, third in self._each(many):
            factor = self._matrix(a, inner, rows, head, first)
            other = self._matrix(b, inner, columns, head, second)
            self._matrix(to, rows, columns, head, third)[:] = factor.T @ other


@contextmanager
def emulated(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Let single steps of the simulated GPU compute."""
    libraries: dict[Any, Any] = {}

    def load(cell: Any, plan: Any, name: str, device: Any) -> Any:
        key = (cell, plan.as_compiled())
        if key not in libraries:
            libraries[key] = _library(kernel_source(cell, plan), folder)
        run = libraries[key].run

        def launch(grid: tuple[int, int, int], arguments: ctypes.Structure) -> None:
            run(ctypes.byref(arguments), *grid[:2], plan.threads)

        return launch

    patch.setattr(ready, "load_kernel", load)
    for room in (forward, backward):
        patch.setattr(room, "gemm_of", lambda device, dtype, tf32: Numpy(dtype))
    yield
