"""Processes that compile kernels into the cache."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from types import TracebackType
from typing import Self

from ..cellspec.cell import CellSpec
from ..codegen.cuda.kernel_plan import KernelPlan
from ..errors import RnncError
from ..runtime.cuda.nvrtc import compile_plan


class CompilePool:
    """Processes that compile each kernel once, as many as there are cores; none uses the GPU.

    Processes, because rendering a source holds Python's lock, and NVRTC has locks of its own.

    Args:
        workers: how many; one per core if None.
    """

    def __init__(self, workers: int | None = None) -> None:
        # NOTE: a forked process could not use CUDA, which this one may have begun to use.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers or os.cpu_count(), context)
        self._tasks: dict[tuple[str, KernelPlan], Future[None]] = {}

    def submit(self, cell: CellSpec, plans: Iterable[KernelPlan]) -> None:
        """Begin to compile those kernels that nobody has asked for before, and return at once."""
        for plan in plans:
            key = (cell.fingerprint, plan.as_compiled())
            if key not in self._tasks:
                self._tasks[key] = self._pool.submit(compile_quietly, cell, plan)

    def wait(self, cell: CellSpec, plans: Iterable[KernelPlan], deadline: float) -> bool:
        """Wait until kernels are in the cache, or have failed; return False at the deadline."""
        tasks = [self._tasks[cell.fingerprint, plan.as_compiled()] for plan in plans]
        left = deadline - time.monotonic()
        _, late = wait(tasks, None if left == math.inf else max(left, 0))
        return not late

    def wait_for_all(self) -> None:
        """Wait until all kernels are in the cache, or have failed."""
        for task in self._tasks.values():
            task.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def compile_quietly(cell: CellSpec, plan: KernelPlan) -> None:
    """Compile a kernel, or find it compiled. A failure appears again when the kernel is called."""
    try:
        compile_plan(cell, plan)
    except RnncError as error:
        print(error, file=sys.stderr)
