"""A step of a module whose parameters are sharded by FSDP2, in two processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "fsdp_step.py"


def test_a_step_of_a_sharded_module():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    commands = [[sys.executable, str(SCRIPT), str(rank), port, "cpu"] for rank in range(2)]
    running = [
        subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for c in commands
    ]
    for process in running:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        assert out.strip() == "equal"
