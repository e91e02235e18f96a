"""Alternating plans of a GPU on the CPU: kernels as C++, with a fiber for each lane of a block.

What NVRTC would compile runs on addresses of tensors of the CPU, so that values of calls can be
compared without a GPU. Products are torch's. A graph is a list of calls.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from rnnc.codegen.cuda.source import kernel_source
from rnnc.runtime.cuda.alternating import products, run, work
from torch import Tensor

Call = Callable[[], None]
_OF_KIND = {0: torch.float32, 1: torch.float64, 2: torch.float16, 14: torch.bfloat16}
_TRANSPOSED = 1
_BLOCKS = Path(__file__).with_name("emulated_blocks")
_TWINS = {
    path: (_BLOCKS / path).read_text()
    for path in (
        *("lib/mma/tf32.cuh", "lib/ptx/launder.cuh", "lib/ptx/ld_st.cuh"),
        "lib/stages/rsqrt.cuh",
    )
}


def _matrices(address: int, matrix: Any, rows: int, columns: int, count: int) -> Tensor:
    """Matrices in memory, (count, rows, columns), which lie by columns."""
    dtype = _OF_KIND[matrix.kind]
    last = (count - 1) * matrix.apart + (columns - 1) * matrix.pitch + rows
    memory = (ctypes.c_char * (last * dtype.itemsize)).from_address(address)
    flat = torch.frombuffer(memory, dtype=dtype)
    return flat.as_strided((count, rows, columns), (matrix.apart, 1, matrix.pitch))


class Product:
    """A product of the library by torch, on addresses; takes the place of `ByGemmEx`."""

    def __init__(self, kind: Any, device: int | None) -> None:
        self._kind = kind

    def __call__(self, first: int, second: int, to: int, stream: int, *_: int) -> None:
        """Multiply, as `Multiplies` says it."""
        kind, factors = self._kind, []
        sizes = (kind.rows, kind.inner), (kind.inner, kind.columns)
        places = (first, second), (kind.first, kind.second), kind.turns, sizes
        for address, matrix, turn, (rows, columns) in zip(*places, strict=True):
            shape = (columns, rows) if turn == _TRANSPOSED else (rows, columns)
            found = _matrices(address, matrix, *shape, kind.products)
            factors.append(found.mT if turn == _TRANSPOSED else found)
        result = _matrices(to, kind.to, kind.rows, kind.columns, kind.products)
        result.copy_(factors[0].to(result.dtype) @ factors[1].to(result.dtype))


class Chain:
    """Calls one after the other, in place of the nodes of a graph."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def add(self, kernel: Any, grid: Any, arguments: Any, overlapping: bool = False) -> None:
        """Add a kernel."""
        self._calls.append(lambda: kernel(grid, arguments, 0))

    def include(self, call: Call) -> None:
        """Add what was captured."""
        self._calls.append(call)

    def graph(self) -> Any:
        """All of them, to be launched."""
        calls = [*self._calls]
        return SimpleNamespace(launch=lambda stream: [call() for call in calls])


@contextmanager
def emulated(patch: pytest.MonkeyPatch, step: ModuleType, folder: Path) -> Iterator[list[Any]]:
    """Let alternating plans of the simulated GPU compute; gives the plans of their kernels."""
    libraries: dict[Any, Any] = {}
    plans: list[Any] = []

    def load(cell: Any, plan: Any, name: str, device: Any) -> Any:
        key = (cell, plan.as_compiled())
        if key not in libraries:
            source = kernel_source(cell, plan)
            # Blocks run one after the other: a variable that a block shares may be one of all.
            shared = {
                path: re.sub(r"(?<!extern )__shared__ ", "static ", text)
                for path, text in source.headers
                if "/alternating/" in path
            }
            libraries[key] = step._library(source, folder, {**_TWINS, **shared})
            plans.append(plan)
        kernel = getattr(libraries[key], f"run_{name}")

        def launch(grid: tuple[int, int, int], arguments: ctypes.Structure, stream: int) -> None:
            kernel(ctypes.byref(arguments), *grid[:2], plan.threads)

        return launch

    @contextmanager
    def chain() -> Iterator[Chain]:
        yield Chain()

    def captured(launch: Callable[[int], None]) -> Any:
        return SimpleNamespace(handle=lambda: launch(0))

    made = {
        "load_kernel": load,
        "workspace_bytes": lambda _: 0,
        "lasting_workspace": lambda *_: torch.empty(0),
        # Memory of a GPU is never empty: what nobody has written is no number.
        "device_tensor": lambda size, dtype, *_: torch.empty(size, dtype=dtype).fill_(
            float("nan") if dtype.is_floating_point else 99
        ),
        "chain": chain,
        "overlap_possible": lambda: False,
    }
    for name, fake in made.items():
        patch.setattr(work, name, fake)
    patch.setattr(products, "ByGemmEx", Product)
    patch.setattr(products, "captured", captured)
    patch.setattr(run, "_works", run.Kept())
    yield plans
