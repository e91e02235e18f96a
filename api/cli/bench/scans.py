"""The command `rnnc bench --scans`, which times cells without R."""

from __future__ import annotations

import math
import time

import torch

from ...bench.report import Record, machine_line
from ...bench.rows import BenchError
from ...bench.scans.cases import scan_cases
from ...bench.scans.floor import copy_speed
from ...bench.scans.measure import measure_scans
from ...bench.scans.table import reasons, scans_table
from ...codegen.shape import Dtype
from ..console import print_lines, print_table
from ..picture import write_picture
from ..progress import stages
from .options import BenchOptions
from .pictures import scans_marks

_METHOD = (
    "milliseconds by CUDA events behind queued work; medians of at most {repeat} runs after 3,"
    " contenders in turns, in an order drawn for every two rounds, of which the second has its"
    " reverse; a run takes sets of tensors in turn, together more than twice L2, and its time is"
    " shared by them; forward: one that a backward follows. Floor: bytes of gates, inputs, states"
    " and gradients at the speed of a copy in this run, {speed:.2f} TB/s"
)
_LEAST_READY = 20.0  # of the limit, for a contender to be compiled


def bench_scans(options: BenchOptions, device: str, dtype: Dtype, command: str) -> None:
    """Time the cases, and print and write what was found.

    Args:
        options: the options of the command.
        device: "cuda".
        dtype: of all tensors.
        command: the command line, for the record.

    Raises:
        BenchError: there is no such case, or the device is a CPU, which has no such plans.
    """
    cases = scan_cases(options.cases)
    if device == "cpu":
        wanted = "a GPU, whose plans and floor the table compares"
        raise BenchError("--scans on a CPU", wanted, "--device cuda")
    torch.manual_seed(0)
    deadline = math.inf if options.limit is None else time.monotonic() + options.limit
    speed = copy_speed(device)
    method = _METHOD.format(repeat=options.repeat, speed=1e-12 * speed)
    record, folder = Record(device, command, method=method, copy_speed=speed), options.output
    record.into(options.json, folder and folder / f"scans-{record.stem}.json")
    print_lines(machine_line(record.machine))
    print_lines(f"a copy reads and writes {1e-12 * speed:.2f} TB/s")
    found = []
    for number, case in enumerate(stages(cases, "case")):
        left = deadline - time.monotonic()
        until = time.monotonic() + left / (len(cases) - number)
        ready = math.inf if options.limit is None else max(_LEAST_READY, left / 3)
        found.append(measure_scans(case, device, dtype, speed, options.repeat, until, ready))
        record.write(cases=[result.record() for result in found])
    print_table(scans_table(found))
    print_lines(reasons(found))
    title = f"rnnc bench --scans: {record.title}"
    write_picture(options.plot, title, "ms of forward + backward", list(scans_marks(found)))
    for path in record.paths:
        print_lines(f"wrote {path}")
