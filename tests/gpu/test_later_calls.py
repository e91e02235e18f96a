"""Calls after the first of their kind import nothing, on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "runtime" / "later_calls.py"


def test_later_calls_import_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "cuda"],
        env={**os.environ, "RNNC_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == []
