"""The scans of other packages, on a CPU: what `rnnc bench --peers` gives them is what they compute.

Triton's interpreter runs accelerated-scan's kernels. fla's need a GPU, so its own loop stands for
them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHECK = """
from importlib import import_module
from rnnc.bench.contenders import scans_over_time
from rnnc.bench.suites import checks

scans_over_time.package = lambda module, *_: import_module(module)
if "{kind}" == "fla":
    loop = import_module("fla.ops.hgrn.naive").naive_recurrent_hgrn
    checks.hgrn_kernel = lambda device: lambda x, g: loop(x, g)[0]
(found,) = checks._linear("cpu", (8, 2, 40), ["{kind}"], 100, "float32")
assert not found.failure, found.failure
assert len(found.errors) == 3
assert max(found.errors.values()) < 1e-6, found.errors
"""


@pytest.mark.parametrize(
    ("kind", "module"), [("accelerated-scan", "accelerated_scan"), ("fla", "fla")]
)
def test_they_compute_the_recurrence_that_the_check_gives_them(kind, module):
    pytest.importorskip(module, reason=f"{kind} and triton are not installed")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = [sys.executable, "-c", CHECK.format(kind=kind)]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
