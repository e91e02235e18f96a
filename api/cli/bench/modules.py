"""The commands `rnnc bench --users` and `--ragged`, which time modules."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch

from ...bench.modules.budget import Budget, in_order
from ...bench.modules.cases import Case, ragged_cases, user_cases
from ...bench.modules.contenders import user_contenders
from ...bench.modules.measure import METHOD, measure_modules
from ...bench.modules.ragged import ragged_contenders, ragged_inputs
from ...bench.modules.results import OURS, ModuleResult
from ...bench.modules.tables import ragged_table, summary, users_table
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
from .pictures import modules_marks
from .plans import bench_plans

# The options that choose rows and contenders, of which these cases have their own.
_OTHERS = ("rows", "cell", "heads", "head_dim", "batch", "steps", "dtype", "peer_dtype", "anchors")
_LEAST_READY = 20.0  # of the limit, for a contender to be compiled


def bench_modules(options: BenchOptions, device: str, command: str) -> None:
    """Time the users' or the ragged cases of a device, and print and write what was found.

    Args:
        options: the options of the command.
        device: "cpu" or "cuda".
        command: the command line, for the record.

    Raises:
        BenchError: an option goes with rows only, or there is no such case.
    """
    suite = "users" if options.users else "ragged"
    for name in _OTHERS:
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise BenchError(f"--{suite} and {option}", "one of them", f"rnnc bench --{suite}")
    if options.plans:
        bench_plans(options, device, command)
        return
    deadline = math.inf if options.limit is None else time.monotonic() + options.limit
    record = Record(device, command, method=METHOD.format(repeat=options.repeat))
    print_lines(machine_line(record.machine))
    torch.manual_seed(0)
    earlier = earlier_results(options.json, record.machine, "cases")
    found = [result for result in map(ModuleResult.of_record, earlier) if result.ours]
    there = {result.case for result in found}
    named = (user_cases if options.users else ragged_cases)(device, options.cases)
    cases = in_order(case for case in named if case not in there)
    if options.ahead and device == "cuda":
        print_lines(f"compiled in {_compile_all(cases):.1f} s")
    folder = options.output
    record.into(options.json, folder and folder / f"{suite}-{record.stem}.json")
    budget = Budget(cases, deadline)
    for case in stages(cases, "case"):
        found.append(_measured(case, options, device, budget, deadline))
        record.write(cases=[result.record() for result in found])
    print_table(users_table(found) if options.users else ragged_table(found))
    if options.users:
        print_lines("\n".join(summary(found)))
    title = f"rnnc bench --{suite}: {record.title}"
    write_picture(options.plot, title, "ms by wall-clock", list(modules_marks(found)))
    for path in record.paths:
        print_lines(f"wrote {path}")


def _measured(
    case: Case, options: BenchOptions, device: str, budget: Budget, deadline: float
) -> ModuleResult:
    until, begun = budget.until(case), time.monotonic()
    if until is None:
        return ModuleResult(case, failures={OURS: "the time limit was reached"})
    if options.users:
        contenders = user_contenders(case, device)
    else:
        contenders = ragged_contenders(case, ragged_inputs(case, device))
    left = deadline - begun
    ready = left if math.isinf(left) else max(_LEAST_READY, left / 3)
    result = measure_modules(case, contenders, device, options.repeat, until, ready)
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
