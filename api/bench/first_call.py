"""Seconds to a first result in a new process, with an empty and with a filled disk cache.

`python -m rnnc.bench.first_call REQUEST` measures once and prints the result. The import of torch
and its first matrix product come before the clock starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch

from ..cellspec.cell import CellSpec
from .contenders.choice import contenders_for
from .contenders.contender import Contender
from .inputs import DTYPES, Inputs
from .rows import Row

_SECONDS_AT_MOST = 300


def first_results(
    row: Row, cell: CellSpec, device: str, contender: Contender
) -> dict[str, float | str]:
    """Seconds to the first result of a contender, and to its first training step.

    Returns:
        "cold" and "cached": seconds to the forward's result; "cold_step" and "cached_step": seconds
        to the gradients after it. If a process fails, "failure" says why.
    """
    sizes = [row.heads, row.head_dim, row.batch, row.steps]
    request = json.dumps([cell.text, row.cell, sizes, contender.dtype, contender.name, device])
    found: dict[str, float | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("cold", "cached"):
            try:
                done = subprocess.run(
                    [sys.executable, "-m", __name__, request],
                    env={**os.environ, "RNNC_CACHE_DIR": folder},
                    capture_output=True,
                    text=True,
                    timeout=_SECONDS_AT_MOST,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return found | {"failure": f"{kind}: took longer than {_SECONDS_AT_MOST} s"}
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                return found | {"failure": f"{kind}: {last}"[:400]}
            forward, step = json.loads(done.stdout.strip().splitlines()[-1])
            found |= {kind: forward, f"{kind}_step": step}
    return found


def first_result(request: str) -> tuple[float, float]:
    """Seconds in this process to the result of a forward, and to that of a training step."""
    text, name, sizes, dtype, contender_name, device = json.loads(request)
    cell, row = CellSpec.from_json(text), Row(name, *sizes)
    contender = next(
        c for c in contenders_for(row, device, [dtype], ["scan"]) if c.name == contender_name
    )
    inputs = Inputs(cell, row, dtype, device)
    inputs.draw_all()
    # The matrix library initialises itself at its first product, which is not part of our start.
    square = torch.ones(8, 8, dtype=DTYPES[dtype], device=device)
    (square @ square).sum().item()
    wait: Any = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    call = contender.prepare(inputs)
    call.run()
    wait()
    forward = time.perf_counter() - start
    call.step()
    wait()
    return forward, time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(first_result(sys.argv[1])))
