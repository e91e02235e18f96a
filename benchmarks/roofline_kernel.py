"""The child process of `roofline.py`: times rows of `rnnc bench`, or runs them once for `ncu`.

Its argument is a JSON object with `rows`, `repeat`, `device`, `without` ("nothing" or a key of
`WITHOUT`) and `profile`. It prints a JSON object with a result per row.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from typing import Any

import rnnc
import torch
from cost_parts import named_parts
from rnnc.bench.contenders.choice import contenders_for
from rnnc.bench.inputs import DTYPES, Inputs
from rnnc.bench.rows import ROWS, Row
from rnnc.bench.timing import free, timed, wait, warm_up
from rnnc.runtime.call.call import Choice
from rnnc.runtime.cuda.choose import choose_plan
from rnnc.runtime.store import compiled
from roofline_without import WITHOUT


def main(request: dict[str, Any]) -> dict[str, Any]:
    """The results of a request by the row's number."""
    # NOTE: the cache names a kernel by its plan, not by its text, so a changed kernel needs another
    # folder. The unchanged ones get an empty folder too, since a cache may hold a tuned plan.
    os.environ["RNNC_CACHE_DIR"] = tempfile.mkdtemp()
    if request["without"] != "nothing":
        write, change = compiled.render, WITHOUT[request["without"]]
        compiled.render = lambda pointwise, plan: change(write(pointwise, plan))
    found: dict[str, Any] = {}
    for number in request["rows"]:
        row = ROWS[number].resized(steps=request.get("steps"))
        try:
            found[str(number)] = _measured(row, request)
        except Exception as error:
            found[str(number)] = {"failure": f"{type(error).__name__}: {error}".splitlines()[0]}
        free(request["device"])
    return found


def _measured(row: Row, request: dict[str, Any]) -> dict[str, Any]:
    device = request["device"]
    dtype = "bfloat16" if device == "cuda" else "float32"
    cell = rnnc.cells.get(row.cell)
    contender = next(
        c
        for c in contenders_for(row, cell, device, [dtype], ["scan"])
        if c.ours and c.variant in (None, "auto")
    )
    call = contender.prepare(Inputs(cell, row, dtype, device))
    found: dict[str, Any] = {"row": str(row), "dtype": dtype} | _plan(row, cell, device)
    ahead = [warm_up(run, device, runs=3).ahead for run in (call.run, call.step)]
    if request["profile"]:
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
        call.step()
        wait(device)
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
        return found
    took = [
        statistics.median(timed(run, device, first)[0] for _ in range(request["repeat"]))
        for run, first in zip((call.run, call.step), ahead, strict=True)
    ]
    forward, both = (1e3 * t / row.steps for t in took)
    return found | {"us": {"forward": forward, "backward": both - forward}}


def _plan(row: Row, cell: rnnc.Cell, device: str) -> dict[str, Any]:
    """The plan that runs, and its parts by the cost model."""
    if device != "cuda":
        return {}
    index = torch.cuda.current_device()
    sizes = (row.heads, row.head_dim, row.batch)
    plan = choose_plan(cell, *sizes, DTYPES["bfloat16"], index, Choice(), False)
    return {
        "variant": plan.variant,
        "plan": str(plan),
        "model_ns": named_parts(plan),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
