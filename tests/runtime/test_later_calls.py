"""Calls after the first of their kind import nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "later_calls.py"


def test_later_calls_import_nothing(tmp_path):
    """Not even the one that records: a dispatch mode imports torch._dynamo by default."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "simulated"],
        env={**os.environ, "RNNC_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == []
