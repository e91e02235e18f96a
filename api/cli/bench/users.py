"""What `rnnc bench --users` does: it times the users' cases, prints and writes what it found."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import date
from typing import Any

import torch

from ...bench.precompile import compile_shapes
from ...bench.report import file_stem, machine, machine_line, write_record
from ...bench.rows import BenchError
from ...bench.users.budget import Budget, in_order
from ...bench.users.cases import UserCase, cases_named
from ...bench.users.measure import UserResult, measure_case
from ...bench.users.text import summary, users_table
from ...cellspec.library import load
from ...codegen.shape import Shape, counted
from ...runtime.cuda.driver.device import device_limits
from ..console import print_lines, print_table
from ..picture import write_picture
from ..progress import stage, stages
from .merged import earlier_results
from .options import BenchOptions
from .pictures import users_marks
from .plans import bench_plans

_SCHEMA = 1
# The options that choose rows and contenders, of which the users' cases have their own.
_OTHERS = ("rows", "cell", "heads", "head_dim", "batch", "steps", "dtype", "peer_dtype", "anchors")


def bench_users(options: BenchOptions, device: str, command: str) -> None:
    """Time the users' cases of a device, and print and write what was found.

    Args:
        options: the options of the command.
        device: "cpu" or "cuda".
        command: the command line, for the record.

    Raises:
        BenchError: an option goes with rows only.
    """
    for name in _OTHERS:
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise BenchError(f"--users and {option}", "one of them", "rnnc bench --users")
    if options.plans:
        bench_plans(options, device, command)
        return
    deadline = math.inf if options.limit is None else time.monotonic() + options.limit
    today, on = date.today().isoformat(), machine(device)
    print_lines(machine_line(on))
    torch.manual_seed(0)
    found = [UserResult.of_record(r) for r in earlier_results(options.json, on, "cases")]
    found = [result for result in found if result.ours]
    there = {result.case for result in found}
    cases = in_order(c for c in cases_named(options.cases, device) if c not in there)
    if options.ahead and device == "cuda":
        print_lines(f"compiled in {_compile_all(cases):.1f} s")
    folder, stem = options.output, f"users-{file_stem(device, on['device'], today)}"
    paths = [path for path in (options.json, folder and folder / f"{stem}.json") if path]
    budget = Budget(cases, deadline)
    for case in stages(cases, "case"):
        found.append(_measured(case, device, options.repeat, budget))
        for path in paths:  # after each case, so that nothing is lost if one takes too long
            write_record(_record(found, options, today, on, command), path)
    print_table(users_table(found, device))
    print_lines(summary(found))
    title = f"rnnc bench --users: {machine_line(on)}, {today}"
    write_picture(options.plot, title, "ms by wall-clock", list(users_marks(found)))
    for path in paths:
        print_lines(f"wrote {path}")


def _measured(case: UserCase, device: str, repeat: int, budget: Budget) -> UserResult:
    until, begun = budget.until(case), time.monotonic()
    if until is None:
        return UserResult(case, failure="the time limit was reached")
    result = measure_case(case, device, repeat, until)
    budget.took(case, time.monotonic() - begun)
    return result


def _compile_all(cases: Sequence[UserCase]) -> float:
    """Compile the kernels of all cases on all cores; the seconds that it took."""
    shapes = [
        (load(case.module), Shape(1, case.hidden, case.batch, dtype=case.dtype), case.both)
        for case in cases
    ]
    with stage(f"compiling the kernels of {counted(len(cases), 'case')}"):
        return compile_shapes(shapes, device_limits(torch.cuda.current_device()))


def _record(
    found: list[UserResult], options: BenchOptions, today: str, on: dict[str, str], command: str
) -> dict[str, Any]:
    """All measurements, as JSON writes them."""
    return {
        "schema": _SCHEMA,
        "date": today,
        "command": command,
        "machine": on,
        "method": f"milliseconds; medians of at most {options.repeat} runs after 4, both sides in"
        " turns; wall: host's clock, from an idle device until it is idle again; device: CUDA"
        " events behind queued work; torch's module with default flags, for bfloat16 the faster of"
        " bfloat16 and float16",
        "cases": [result.record() for result in found],
    }
