"""The command `rnnc bench --users --plans`, which times kernels."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch
from pydantic import TypeAdapter

from ...bench.compile_pool import CompilePool
from ...bench.modules.cases import Case, user_cases
from ...bench.modules.plans import Candidates, PlanResult, measure_plans
from ...bench.modules.plans_table import plans_summary, plans_table
from ...bench.report import Record
from ...bench.rows import BenchError
from ...runtime.cuda.driver.device import device_limits
from ..console import print_lines, print_table
from ..picture import write_picture
from ..progress import stages
from .merged import earlier_results
from .options import BenchOptions
from .pictures import plans_marks

_METHOD = (
    "milliseconds on the GPU of the launches alone; the shorter of two medians of three groups of"
    " queued launches, plans in turns"
)


def bench_plans(options: BenchOptions, device: str, command: str) -> None:
    """Time the best tilings of each kind of plan for the users' cases.

    Kernels are compiled on all cores while others are timed.

    Args:
        options: the options of the command.
        device: "cuda".
        command: the command line, for the record.

    Raises:
        BenchError: there is no GPU, or the file of results is of another run.
    """
    if device != "cuda":
        raise BenchError("--plans on a CPU", "a GPU: plans are of CUDA kernels", "--device cuda")
    deadline = math.inf if options.limit is None else time.monotonic() + options.limit
    record = Record(device, command, method=_METHOD)
    record.into(options.json)
    on = record.machine
    earlier = earlier_results(options.json, on, "kernels")
    found = TypeAdapter(list[PlanResult]).validate_python(earlier)
    there = {each.case for each in found}
    cases = [
        case
        for case in user_cases(device, options.cases)
        if not case.stepwise and str(case) not in there  # single steps have kernels without plans
    ]
    print_lines(f"{on['device']}: {len(cases)} cases to measure, {len(there)} measured before")
    index = torch.cuda.current_device()
    limits = device_limits(index)
    measured: dict[tuple[object, ...], list[PlanResult]] = {}
    late: list[Case] = []
    with CompilePool() as pool:
        candidates = [Candidates(case, limits) for case in cases]
        for each in candidates:
            pool.submit(each.asked.cell, each.all())
        for each in stages(candidates, "case", lambda c: str(c.case)):
            cell = each.asked.cell
            if not pool.wait(cell, each.all(), deadline) or time.monotonic() > deadline:
                late.append(each.case)
                continue
            if each.key not in measured:
                measured[each.key] = measure_plans(each, torch.device("cuda", index))
                torch.cuda.empty_cache()
            found += [replace(result, case=str(each.case)) for result in measured[each.key]]
            kernels = [result.record() for result in found]
            record.write(summary=plans_summary(found), kernels=kernels)
    print_table(plans_table(found))
    title = f"rnnc bench --users --plans: {on['device']}, {record.head['date']}"
    write_picture(options.plot, title, "ms of a kernel", list(plans_marks(found)))
    for name, value in plans_summary(found).items():
        print_lines(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")
    if late:
        print_lines(f"{len(late)} cases were cut by the time limit; the same command goes on")
    for path in record.paths:
        print_lines(f"wrote {path}")
