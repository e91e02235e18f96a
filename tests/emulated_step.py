"""Single steps of a GPU on the CPU: their kernels as C++, with a fiber for each lane of a block.

What NVRTC would compile runs on addresses of tensors of the CPU, so that values of a step can be
compared without a GPU. The few headers of PTX have twins here.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from rnnc.codegen.cuda.source import kernel_source
from rnnc.runtime.cuda.step import launcher, ready

_ROOM = Path(__file__).with_name("emulated")  # what stands in for CUDA, and for headers of PTX
_TWINS = {path.relative_to(_ROOM).as_posix(): path for path in _ROOM.rglob("*.cuh")}
_SHARED = 256 * 1024  # bytes
_DTYPES = {"float32": np.float32, "float64": np.float64}


def _library(source: Any, folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The kernels of a source as functions of arguments, grid and threads.

    Args:
        source: of the kernels.
        folder: for files.
        more: text that is compiled in place of further headers, by path.
    """
    root = folder / source.digest[:16]
    plan = source.plan
    twins = {path: file.read_text() for path, file in _TWINS.items()}
    for path, text in {**dict(source.headers), **twins, **more}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    # Names of std would hide those of the cell's functions; static assertions on sizes stay.
    code = re.sub(
        r'extern "C" __global__ void\s+(__launch_bounds__\(.*?\))?', "static void ", source.code
    )
    code = f"""#include "lanes.h"
{code}
namespace rnnc {{ char shared[{_SHARED}]; }}
"""
    for name in plan.kernel_names:
        code += f"""
extern "C" void run_{name}(const void* arguments, unsigned x, unsigned y, unsigned threads) {{
  emulation::launch({name}, arguments, Dim{{x, y, 1}}, threads);
}}
"""
    library = root / "kernel.so"
    if not library.exists():
        (root / "kernel.cpp").write_text(code)
        if not (folder / "lanes.h.gch").exists():
            # Parsed once for all kernels: this takes as long as the rest of a compilation.
            shutil.copy(_ROOM / "lanes.h", folder)
            _compiled(folder, "-x c++-header lanes.h -o lanes.h.gch")
        _compiled(root, f"-shared -I . -I {folder} kernel.cpp -o made.so")
        (root / "made.so").rename(library)
    return ctypes.CDLL(str(library))


def _compiled(folder: Path, words: str) -> None:
    command = f"g++ -std=c++20 -O1 -w -fPIC {words}".split()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


class Numpy:
    """The products of `Gemm` by numpy, on addresses."""

    def __init__(self, dtype: torch.dtype) -> None:
        # None of a dtype that numpy lacks, whose steps multiply inside their kernels.
        self._dtype: Any = _DTYPES.get(str(dtype).removeprefix("torch."))

        self.lock = nullcontext()

    def at(self, *_: int) -> None: ...

    def _matrix(self, at: tuple[int, int], rows: int, columns: int, head: int, apart: int) -> Any:
        address, pitch = at
        size = np.dtype(self._dtype).itemsize
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
def emulated(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[list[Any]]:
    """Let single steps of the simulated GPU compute; gives the plans of their kernels."""
    libraries: dict[Any, Any] = {}
    plans: list[Any] = []

    def load(cell: Any, plan: Any, name: str, device: Any) -> Any:
        key = (cell, plan.as_compiled())
        if key not in libraries:
            libraries[key] = _library(kernel_source(cell, plan), folder)
        run = getattr(libraries[key], f"run_{name}")
        plans.append(plan)

        def launch(grid: tuple[int, int, int], arguments: ctypes.Structure) -> None:
            run(ctypes.byref(arguments), *grid[:2], plan.threads)

        return launch

    patch.setattr(launcher, "load_kernel", load)
    patch.setattr(ready, "Gemm", lambda device, dtype, tf32: Numpy(dtype))
    yield plans
