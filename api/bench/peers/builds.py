"""Builds FlashRNN's kernels before they are timed: nvcc takes half a minute for each size."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable

from .cases import PeerCase


class Builds:
    """Processes that call FlashRNN once for each of the sizes that it compiles for.

    Args:
        cases: those that will be timed.

    Example:
        >>> from rnnc.bench.peers.builds import Builds
        >>> Builds([]).wait(1)
        0
    """

    def __init__(self, cases: Iterable[PeerCase]) -> None:
        sizes = {
            (case.row.cell, case.row.heads, case.row.head_dim, case.row.batch): case.dtypes[0]
            for case in cases
            if "flashrnn" in case.kinds
        }
        self._processes = [_started(*each, dtype) for each, dtype in sizes.items()]

    def wait(self, seconds: float) -> int:
        """Wait for all of them, and end those that take longer.

        Args:
            seconds: how long to wait in all.

        Returns:
            How many took longer.
        """
        end, late = time.monotonic() + seconds, 0
        for process in self._processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                late += 1
        return late


def _started(
    cell: str, heads: int, head_dim: int, batch: int, dtype: str
) -> subprocess.Popen[bytes]:
    sizes = {"heads": heads, "head-dim": head_dim, "batch": batch, "steps": 2}
    options = [f"--{name}={value}" for name, value in sizes.items()]
    run = [sys.executable, "-m", "rnnc", "bench", "--cell", cell, "--dtype", dtype, *options]
    run += ["--contenders", "flashrnn", "--repeat", "1", "--device", "cuda"]
    return subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
