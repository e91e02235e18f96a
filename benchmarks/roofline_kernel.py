"""The child process of `roofline.py`: times rows of `rnnc bench`, or runs them once for `ncu`.

Its argument is a JSON object with `rows`, `repeat`, `device`, `without` ("nothing" or a key of
`WITHOUT`) and `profile`. It prints a JSON object with a result per row.

A kernel without its matrix product, or without the cell's equations, loses time: the share of the
part. Its text is changed before it is compiled. It exchanges, waits for and stores the same words
as before, so its results are wrong and its times are valid.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import rnnc
import torch
from rnnc.bench.contenders.choice import contenders_for
from rnnc.bench.inputs import Inputs
from rnnc.bench.measure import chosen_plan
from rnnc.bench.rows import ROWS, Row
from rnnc.bench.timing import free, median_time, wait, warm_up
from rnnc.codegen.plan import Plan
from rnnc.codegen.render import Source
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.store import compiled

# One addition replaces a matrix instruction and keeps the data flow from h to the sums.
_MATRIX = re.compile(r'asm volatile\(\s*"mma\.sync.*?\);', re.DOTALL)
_ADDITION = "c[0] += __uint_as_float(b0);"
# The generated equations: a name, the arguments, the body.
_POINTWISE = re.compile(
    r"(RNNC_INLINE void pointwise_(?:forward|backward)\()(.*?)(\) \{\n).*?(\n\}\n)", re.DOTALL
)


class ChangedKernelError(Exception):
    """The text of a kernel has changed, and this file does not find the part to replace."""


def without_product(source: Source) -> Source:
    """The source with an addition in place of each matrix instruction."""
    return _edited(source, lambda text: _MATRIX.subn(_ADDITION, text), "mma.sync")


def without_pointwise(source: Source) -> Source:
    """The source with sums in place of the cell's equations. It still reads every value."""
    return _edited(source, lambda text: _POINTWISE.subn(_sums, text), "pointwise_forward")


WITHOUT: dict[str, Callable[[Source], Source]] = {
    "product": without_product,
    "pointwise": without_pointwise,
}


def _sums(found: re.Match[str]) -> str:
    begin, arguments, brace, end = found.groups()
    words = [argument.split() for argument in arguments.replace("\n", " ").split(",")]
    given = [name for kind, name in words if kind == "real"]
    wanted = [name for kind, name in words if kind == "real&"]
    lines = []
    for i, name in enumerate(wanted):
        share = given[i :: len(wanted)] or [given[i % len(given)]]
        lines.append(f"  {name} = real(0.25) * ({' + '.join(share)});")
    return begin + arguments + brace + "\n".join(lines) + end


def _edited(source: Source, edit: Callable[[str], tuple[str, int]], what: str) -> Source:
    code, count = edit(source.code)
    headers = []
    for path, text in source.headers:
        text, found = edit(text)
        headers.append((path, text))
        count += found
    if not count:
        raise ChangedKernelError(f"found no {what} in the text of {type(source.plan).__name__}")
    return replace(source, code=code, headers=tuple(headers))


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
    contender = contenders_for(row, device, [dtype], ["auto"])[0]
    call = contender.prepare(Inputs(cell, row, dtype, device))
    found: dict[str, Any] = {"row": str(row), "dtype": dtype}
    if device == "cuda":
        plan = chosen_plan(cell, row, dtype)
        found |= {"variant": plan.variant, "plan": str(plan), "model_ns": named_parts(plan)}
    if request["profile"]:
        warm_up(call.step, device, runs=3)
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
        call.step()
        wait(device)
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
        return found
    took = [median_time(run, device, request["repeat"]) for run in (call.run, call.step)]
    forward, both = (1e3 * t / row.steps for t in took)
    return found | {"us": {"forward": forward, "backward": both - forward}}


def named_parts(plan: Plan) -> dict[str, dict[str, float]]:
    """The parts of a plan's estimated time per step, in nanoseconds, by direction and name."""
    found = {name: asdict(getattr(plan, name).estimate) for name in DIRECTIONS}
    for parts in found.values():
        del parts["start"], parts["steps"]  # of a call, not of a step
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
