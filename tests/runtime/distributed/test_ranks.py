"""Two processes on the CPU, connected by gloo, run all checks of `tests/ranks` together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parents[2] / "ranks" / "worker.py"
RANKS = 2


def test_all_checks_of_two_ranks():
    """One pair of processes for all of them: a start takes longer than most checks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    commands = [
        [sys.executable, str(WORKER), str(rank), str(RANKS), port, "cpu"] for rank in range(RANKS)
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for command in commands
    ]
    results = [process.communicate(timeout=240)[0] for process in running]
    told = "\n".join(f"rank {rank}:\n{text}" for rank, text in enumerate(results))
    assert [process.returncode for process in running] == [0] * RANKS, told
    assert results[0].count("\nok check_") > 15, told
