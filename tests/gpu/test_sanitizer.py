"""compute-sanitizer over a small set of calls: memory, races in shared memory, barriers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SANITIZER = shutil.which("compute-sanitizer") or shutil.which(
    "compute-sanitizer", path="/usr/local/cuda/bin"
)


@pytest.mark.slow
@pytest.mark.skipif(SANITIZER is None, reason="needs compute-sanitizer, of the CUDA toolkit")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck", "initcheck"])
def test_sanitizer_finds_nothing(tool, variant):
    script = Path(__file__).with_name("sanitized.py")
    # Kernels of the libraries are not ours to check. But initcheck must see what they write, which
    # takes long: it has the smallest case.
    ours = [] if tool == "initcheck" else ["--kernel-name", "kernel_substring=rnnc"]
    calls = "smallest" if tool == "initcheck" else "all"
    # As many as the blocks of a launch have; with fewer it loses count, and waits never end.
    # Alternating plans have no mbarriers, and more launches than there is memory for so many.
    barriers = tool == "synccheck" and variant != "alternating"
    more = ["--num-cuda-barriers", "1000000"] if barriers else []
    done = subprocess.run(
        [SANITIZER, "--tool", tool, *more, *ours,
         "--error-exitcode", "9", sys.executable, script, variant, calls],
        # An allocation each, so that a read beyond one, or of what nobody wrote, is seen.
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "done" in done.stdout
    assert "0 errors" in done.stdout or "0 hazards" in done.stdout, done.stdout[-2000:]
