"""What `rnnc bench --users` does: it times the users' cases, prints and writes what it found."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from datetime import date
from typing import Any

import torch

from ...bench.precompile import compile_ahead
from ...bench.report import file_stem, machine, write_record
from ...bench.rows import BenchError, Row
from ...bench.users.cases import UserCase, cases_for
from ...bench.users.measure import UserResult, measure_case
from ...bench.users.text import summary, users_table
from ...cellspec.library import load
from ...runtime.cuda.driver.device import device_limits
from ..console import print_lines, print_table
from .options import BenchOptions
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
    print_lines(", ".join(f"{k} {v}" for k, v in on.items()).replace("device ", "", 1))
    torch.manual_seed(0)
    cases = cases_for(device)
    if options.ahead and device == "cuda":
        print_lines(f"compiled in {_compile_all(cases):.1f} s")
    found: list[UserResult] = []
    path = (
        options.output and options.output / f"users-{file_stem(device, on['device'], today)}.json"
    )
    for case in cases:
        found.append(measure_case(case, device, options.repeat, deadline))
        if path is not None:  # after each case, so that nothing is lost if one takes too long
            write_record(_record(found, options, today, on, command), path)
    print_table(users_table(found, device))
    print_lines(summary(found))
    if path is not None:
        print_lines(f"wrote {path}")


def _compile_all(cases: tuple[UserCase, ...]) -> float:
    """Compile the kernels of all cases on all cores; the seconds that it took."""
    limits, seconds = device_limits(torch.cuda.current_device()), 0.0
    for dtype in dict.fromkeys(case.dtype for case in cases):
        rows = [
            (Row(case.module, 1, case.hidden, case.batch, case.steps), load(case.module))
            for case in cases
            if case.dtype == dtype
        ]
        seconds += compile_ahead(rows, (dtype,), limits, ("auto",))
    return seconds


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
        "cases": [
            {
                "name": str(result.case),
                **asdict(result),
                "times": result.times,
                "device_times": result.device_times,
            }
            for result in found
        ],
    }
