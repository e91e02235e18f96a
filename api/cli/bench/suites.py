"""The commands `rnnc bench --peers`, `--stages` and `--scans`: rnnc beside those who run it too."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import metadata
from typing import Any, NamedTuple, cast

import torch

from ...bench.cases import RowCase, float32_products
from ...bench.compile_pool import CompilePool
from ...bench.contenders.choice import contenders_for
from ...bench.contenders.contender import KINDS, Kind, kinds_named
from ...bench.inputs import DTYPES
from ...bench.measure import Settings, measure
from ...bench.report import Record, machine_line
from ...bench.results import PHASES, called, merged
from ...bench.rows import Row
from ...bench.suites.cases import peer_cases, scan_cases, stage_cases
from ...bench.suites.checks import Check, check_all
from ...bench.suites.floor import copy_speed, floor_of
from ...bench.tables import cases_table, checks_table
from ...bench.timing import SECONDS_PER_PHASE
from ...cellspec.library import load
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import Limits
from ...codegen.cuda.planner import plan_for
from ...codegen.shape import Dtype, PlanError, Shape
from ...runtime.cuda.driver.device import device_limits
from ...runtime.cuda.products.multiply import rounds
from ..console import print_lines, print_table
from ..picture import write_picture
from ..progress import stage, stages
from .merged import earlier_results, known_machine
from .options import BenchOptions
from .pictures import cases_marks

_SLOW_LAST = ". Those that compile long run after the others"
_ERRORS = ". Errors: norm of the difference from float64 over the norm"
_FLOOR = (
    ". A run takes sets of tensors in turn, together more than twice L2, and times as many as the"
    " host can queue. Floor: bytes of gates, inputs, states and gradients at the speed of a copy"
)
_PACKAGES = (
    "flash-linear-attention",
    "fla-core",
    "accelerated-scan",
    "torchrl",
    "haste_pytorch",
    "speechbrain",
)
_CHECKED = {"cuda": (64, 16, 1024), "cpu": (16, 3, 24)}  # units, batch rows, steps
# Those that compile for seconds to minutes at their first call, or take a second for each, are
# timed after all others, in this order.
_SLOW: tuple[Kind, ...] = (
    "fla",
    "torchrl",
    "compile-step",
    "compile-graph",
    "fla-gla",
    "compile",
    "flashrnn",
    "flashrnn-alternating",
    "flashrnn-packed",
    "torch-loop",
)
# nvcc takes half a minute for each size of FlashRNN, so it takes part where it is asked for.
_DEFAULT = tuple(kind for kind in KINDS if not kind.startswith("flashrnn"))
_READY = 60.0  # seconds in which a contender must be compiled, unless its share is larger


class Suite(NamedTuple):
    """Cases that a command times.

    Attributes:
        option: of `rnnc bench`.
        cases: those of a device that a word names.
        file: the start of a record's name.
        checked: whether layers of the peers are compared with float64 too.
        floor: whether times stand beside the least that a case can take.
        seconds: for which a slow contender runs in each phase.
    """

    option: str
    cases: Callable[[str, str | None], Sequence[RowCase]]
    file: str
    checked: bool = False
    floor: bool = False
    seconds: float = SECONDS_PER_PHASE


SUITES = (
    Suite("peers", peer_cases, "comparison", checked=True),
    Suite("stages", stage_cases, "stages", seconds=0.2),  # each has a loop of a second
    Suite("scans", scan_cases, "scans", floor=True, seconds=0.3),
)


def bench_suite(
    suite: Suite, options: BenchOptions, device: str, dtypes: tuple[str, ...], command: str
) -> None:
    """Time all peers, check them if the suite says so, and print and write what was found.

    Args:
        suite: the cases.
        options: the options of the command.
        device: "cpu" or "cuda".
        dtypes: in place of those of the cases; () for these.
        command: the command line, for the record.

    Raises:
        BenchError: there is no such case, or the file of results is of another device.
    """
    deadline = math.inf if options.limit is None else time.monotonic() + options.limit
    kinds = _DEFAULT if options.contenders is None else tuple(kinds_named(options.contenders))
    record = _Found(suite, options, device, command)
    cases = suite.cases(device, options.cases)
    if dtypes:
        cases = [replace(case, dtypes=dtypes) for case in cases]
    print_lines(machine_line(record.file.machine))
    torch.manual_seed(0)
    with CompilePool() as pool:
        ahead = options.ahead and device == "cuda"
        wait = _submitted(pool, cases, suite.checked) if ahead else lambda case, until: None
        quick = tuple(kind for kind in kinds if kind not in _SLOW)
        slow = [(kind,) for kind in _SLOW if kind in kinds]
        groups = [own for own in (quick, *slow) if own]
        waiting = len(cases) * len(groups)
        for own in groups:
            named = stages(cases, f"{', '.join(own)}, case")
            for number, case in enumerate(named):
                now = time.monotonic()
                share = (deadline - now) / (len(cases) - number)
                wait(case, deadline)
                until = now + max(share, min(_READY, deadline - now))
                record.time(case, own, until, deadline, _ready(deadline - now, waiting))
                waiting -= 1
            if own == quick and suite.checked:
                record.check(own, deadline)
        # A check compiles again, for another size, so it must not take time from the next cases.
        for own in slow if suite.checked else ():
            record.check(own, deadline)
    if suite.checked:
        print_table(checks_table([Check(**check) for check in record.checks.values()]))
    print_table(cases_table(list(record.cases.values())))
    title = f"rnnc bench --{suite.option}: {record.file.title}"
    marks = list(cases_marks(list(record.cases.values()), PHASES[1:2]))
    write_picture(options.plot, title, "ms of forward + backward", marks)
    for path in record.file.paths:
        print_lines(f"wrote {path}")


class _Found:
    """Results so far, in a file after each case: whatever ends the run, nothing of them is lost."""

    def __init__(self, suite: Suite, options: BenchOptions, device: str, command: str) -> None:
        self._suite, self._device = suite, device
        self.file = Record(device, command)
        self.file.head["machine"] |= _versions()
        commands, cases = (
            earlier_results(options.json, self.file.machine, name) for name in ("commands", "cases")
        )
        checks = earlier_results(options.json, self.file.machine, "checks") if suite.checked else []
        commands = list(dict.fromkeys([*commands, command]))
        self._settings = Settings(device, options.repeat, queued=True, seconds=suite.seconds)
        more = _SLOW_LAST + _ERRORS * suite.checked + _FLOOR * suite.floor
        self.file.head |= {
            "command": "; ".join(commands),
            "commands": commands,
            "machine": known_machine(options.json, self.file.machine),
            "method": self._settings.method + more,
        }
        if suite.floor:
            self.file.head["copy_speed"] = copy_speed(device)
        folder = options.output
        self.file.into(options.json, folder and folder / f"{suite.file}-{self.file.stem}.json")
        self.cases = {case["name"]: case for case in cases}
        self.checks = {_key(check): check for check in checks}

    def time(
        self, case: RowCase, kinds: Sequence[Kind], until: float, deadline: float, ready: float
    ) -> None:
        """Time the contenders of a case that were not timed yet; each compiles within `ready`."""
        name, before = str(case), self.cases.get(str(case))
        there = set(map(called, before["contenders"])) if before else set()
        asked = [kind for kind in case.kinds if kind in kinds]
        asked = [kind for kind in asked if _names(case, kind, self._device) - there]
        now = time.monotonic()
        if not asked or now > deadline:
            return
        own, cell = replace(case, kinds=tuple(asked)), load(case.row.cell)
        settings = replace(self._settings, deadline=min(until, deadline), ready=ready)
        found = measure(own, cell, settings)
        if self._suite.floor:
            speed, dtype = self.file.head["copy_speed"], cast(Dtype, case.dtypes[0])
            found.floor = floor_of(cell, case.row, dtype, speed, self._device)
        self.cases[name] = merged(before, found.record())
        print_lines(f"{name}, {', '.join(asked)}: {time.monotonic() - now:.1f} s")
        self._write()

    def check(self, kinds: Sequence[Kind], deadline: float) -> None:
        """Compare those with float64 that were not compared yet."""
        there = {_KIND_OF.get(c["name"]) for c in self.checks.values() if c["errors"]}
        asked = [kind for kind in kinds if kind not in there]
        left = deadline - time.monotonic()
        if left <= 0 or not asked:
            return
        sizes = _CHECKED[self._device]
        with stage(f"comparing {', '.join(asked)} with float64"):
            for check in check_all(self._device, sizes, asked, _ready(left)):
                self.checks[_key(asdict(check))] = asdict(check)
                self._write()
                if time.monotonic() > deadline:
                    return

    def _write(self) -> None:
        checks = {"checks": list(self.checks.values())} if self._suite.checked else {}
        self.file.write(**checks, cases=list(self.cases.values()))


_KIND_OF: dict[str, Kind] = {
    "rnnc": "auto",
    "rnnc hgrn": "auto",
    "nn.LSTM": "nn",
    "nn.GRU": "nn",
    "TorchRL": "torchrl",
    "Haste": "haste",
    "fla chunk_hgrn": "fla",
    "accelerated-scan": "accelerated-scan",
}


def _ready(left: float, waiting: int = 0) -> float:
    """Seconds that a contender may compile for, so that it leaves time to the others.

    Args:
        left: seconds of all; infinite without a limit.
        waiting: groups of contenders that are still to come, if their number is known.
    """
    share = left / waiting if waiting and not math.isinf(left) else 0.0
    return max(share, min(_READY, max(10.0, left / 3)))


def _key(check: dict[str, Any]) -> tuple[str, str, str]:
    return check["cell"], check["name"], check["dtype"]


def _names(case: RowCase, kind: Kind, device: str) -> set[str]:
    """The contenders of a kind in a case."""
    asked = case.dtypes, [kind], case.peer_dtypes, case.variants
    found = contenders_for(case.row, device, *asked)
    return {f"{each.name}, {each.dtype}" for each in found}


def _submitted(
    pool: CompilePool, cases: Sequence[RowCase], checked: bool
) -> Callable[[RowCase, float], None]:
    """Compile rnnc's kernels on all cores, and give what waits for those of a case."""
    limits = device_limits(torch.cuda.current_device())
    kernels = {str(case): list(_kernels(case, limits)) for case in cases}
    for case in cases:
        pool.submit(load(case.row.cell), kernels[str(case)])
    units, batch, steps = _CHECKED["cuda"]
    for cell in ("lstm", "gru") if checked else ():
        for case in (
            RowCase(Row(cell, 1, units, batch, steps), ("bfloat16", "float16", "float32"), ()),
            RowCase(Row(cell, 1, units, batch, steps), ("float32",), (), float32="ieee"),
        ):
            pool.submit(load(cell), _kernels(case, limits))

    def wait(case: RowCase, until: float) -> None:
        pool.wait(load(case.row.cell), kernels[str(case)], until)

    return wait


def _kernels(case: RowCase, limits: Limits) -> Iterator[KernelPlan]:
    """The kernels of the plans that `"auto"` chooses, or of the kinds that the case names."""
    row = case.row
    with float32_products(case.float32):
        for name in case.dtypes:
            shape = Shape(row.heads, row.head_dim, row.batch, row.steps, cast(Dtype, name))
            tf32 = rounds(DTYPES[name], None)
            for variant in case.variants or ("auto",):
                with suppress(PlanError):  # whatever needs the plan reports it
                    plan = plan_for(load(row.cell), shape, limits, variant, tf32=tf32)
                    yield from (plan.forward, plan.backward)


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions
