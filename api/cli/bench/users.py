"""The command `rnnc bench --users`, which times the users' cases."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch

from ...bench.modules.budget import Budget, in_order
from ...bench.modules.cases import Case, user_cases
from ...bench.modules.measure import UserResult, measure_user
from ...bench.modules.tables import summary, users_table
from ...bench.precompile import compile_shapes
from ...bench.report import Record, machine_line
from ...bench.rows import BenchError
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

_METHOD = (
    "milliseconds; medians of at most {repeat} runs after 4, both sides in turns; wall: host's"
    " clock, from an idle device until it is idle again; device: CUDA events behind queued work;"
    " torch's module with default flags, for bfloat16 the faster of bfloat16 and float16"
)
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
    record = Record(device, command, method=_METHOD.format(repeat=options.repeat))
    print_lines(machine_line(record.machine))
    torch.manual_seed(0)
    earlier = earlier_results(options.json, record.machine, "cases")
    found = [result for result in map(UserResult.of_record, earlier) if result.ours]
    there = {result.case for result in found}
    cases = in_order(c for c in user_cases(device, options.cases) if c not in there)
    if options.ahead and device == "cuda":
        print_lines(f"compiled in {_compile_all(cases):.1f} s")
    folder = options.output
    record.into(options.json, folder and folder / f"users-{record.stem}.json")
    budget = Budget(cases, deadline)
    for case in stages(cases, "case"):
        found.append(_measured(case, device, options.repeat, budget))
        record.write(cases=[result.record() for result in found])
    print_table(users_table(found, device))
    print_lines(summary(found))
    title = f"rnnc bench --users: {record.title}"
    write_picture(options.plot, title, "ms by wall-clock", list(users_marks(found)))
    for path in record.paths:
        print_lines(f"wrote {path}")


def _measured(case: Case, device: str, repeat: int, budget: Budget) -> UserResult:
    until, begun = budget.until(case), time.monotonic()
    if until is None:
        return UserResult(case, failures={"rnnc": "the time limit was reached"})
    result = measure_user(case, device, repeat, until)
    budget.took(case, time.monotonic() - begun)
    return result


def _compile_all(cases: Sequence[Case]) -> float:
    """Compile the kernels of all cases on all cores; the seconds that it took."""
    shapes = [
        (load(case.module), Shape(1, case.hidden, case.batch, dtype=case.dtype), case.both)
        for case in cases
    ]
    with stage(f"compiling the kernels of {counted(len(cases), 'case')}"):
        return compile_shapes(shapes, device_limits(torch.cuda.current_device()))
