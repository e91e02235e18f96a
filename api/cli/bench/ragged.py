"""The command `rnnc bench --ragged`, which times the ragged cases."""

from __future__ import annotations

import math
import time

import torch

from ...bench.modules.cases import ragged_cases
from ...bench.modules.measure import measure_ragged
from ...bench.modules.tables import ragged_table
from ...bench.report import Record, machine_line
from ..console import print_lines, print_table
from ..picture import write_picture
from ..progress import stages
from .options import BenchOptions
from .pictures import ragged_marks

_METHOD = (
    "milliseconds of a forward and its backward; medians of at most {repeat} runs after 4,"
    " contenders in turns, in an order drawn for every two rounds, of which the second has its"
    " reverse; wall: host's clock, from an idle device until it is idle again; device: CUDA events"
    " behind queued work"
)
_SECONDS = 60.0  # of all cases, where there is no limit; those that take longer run less often
_LEAST_READY = 20.0  # of the limit, for a contender to be compiled


def bench_ragged(options: BenchOptions, device: str, command: str) -> None:
    """Time the ragged cases of a device, and print and write what was found.

    Args:
        options: the options of the command.
        device: "cpu" or "cuda".
        command: the command line, for the record.

    Raises:
        BenchError: there is no such case.
    """
    record = Record(device, command, method=_METHOD.format(repeat=options.repeat))
    folder = options.output
    record.into(options.json, folder and folder / f"ragged-{record.stem}.json")
    print_lines(machine_line(record.machine))
    torch.manual_seed(0)
    cases = ragged_cases(device, options.cases)
    deadline = time.monotonic() + (_SECONDS if options.limit is None else options.limit)
    found = []
    for number, case in enumerate(stages(cases, "case")):
        left = deadline - time.monotonic()
        seconds = left / (len(cases) - number)
        ready = math.inf if options.limit is None else max(_LEAST_READY, left / 3)
        found.append(measure_ragged(case, device, options.repeat, seconds, ready))
        record.write(cases=[result.record() for result in found])
    print_table(ragged_table(found, device))
    title = f"rnnc bench --ragged: {record.title}"
    label = "ms of forward + backward, by wall-clock"
    write_picture(options.plot, title, label, list(ragged_marks(found)))
    for path in record.paths:
        print_lines(f"wrote {path}")
