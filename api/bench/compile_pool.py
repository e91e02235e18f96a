"""Processes that compile kernels into the cache."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from ..cellspec.cell import CellSpec
from ..codegen.cuda.kernel_plan import KernelPlan
from ..errors import RnncError
from ..runtime.cuda.nvrtc import compile_plan


class Worker:
    """A process that compiles one kernel after the other, and never touches the GPU.

    A process, because rendering a source holds Python's lock, and NVRTC has locks of its own.
    """

    def __init__(self) -> None:
        # NOTE: multiprocessing would import the caller's script once more.
        command = [sys.executable, "-m", __name__]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)

    def compile(self, cell: CellSpec, plan: KernelPlan) -> None:
        """Compile a kernel, or find it compiled. A failure appears again when it is called."""
        into, out = self._process.stdin, self._process.stdout
        if into is None or out is None:
            raise RuntimeError("the process has no pipes")
        pickle.dump((cell, plan), into)
        into.flush()
        out.readline()

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


class CompilePool:
    """Compiles each kernel once, with as many workers as there are cores.

    Args:
        workers: how many; one per core if None.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._own = threading.local()
        self._workers: list[Worker] = []
        self._pool = ThreadPoolExecutor(workers or os.cpu_count(), initializer=self._begin)
        self._tasks: dict[tuple[str, KernelPlan], Future[None]] = {}

    def submit(self, cell: CellSpec, plans: Iterable[KernelPlan]) -> None:
        """Let kernels be compiled that were not yet asked for; returns at once."""
        for plan in plans:
            key = (cell.fingerprint, plan.as_compiled())
            if key not in self._tasks:
                self._tasks[key] = self._pool.submit(self._compile, cell, plan)

    def wait(self, cell: CellSpec, plans: Iterable[KernelPlan], deadline: float) -> bool:
        """Wait until kernels are in the cache, or have failed; whether they are by then."""
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
        for worker in self._workers:
            worker.end()

    def _begin(self) -> None:
        self._own.worker = Worker()
        self._workers.append(self._own.worker)

    def _compile(self, cell: CellSpec, plan: KernelPlan) -> None:
        self._own.worker.compile(cell, plan)


def main() -> None:
    """What a worker's process does: it compiles what it reads, and writes a line after each."""
    while True:
        try:
            cell, plan = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            compile_plan(cell, plan)
        except RnncError as error:
            print(str(error), file=sys.stderr)
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
