"""Starts the processes that run checks together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("worker.py")


def on_ranks(device: str, *names: str, ranks: int = 2, seconds: float = 240) -> list[str]:
    """Run checks, all of them or those named; what each rank printed.

    Raises:
        AssertionError: a rank failed; its text says where.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), str(ranks), port, device, *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(ranks)
    ]
    try:
        results = [process.communicate(timeout=seconds)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    told = "\n".join(f"rank {rank}:\n{text}" for rank, text in enumerate(results))
    assert [process.returncode for process in running] == [0] * ranks, told
    return results
