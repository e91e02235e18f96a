"""Measures the contenders of a row in turns, on the same inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch

from ..cellspec.cell import CellSpec
from ..codegen.plan import Plan
from ..codegen.shape import PlanError
from ..runtime.call.call import Choice
from ..runtime.cuda.choose import choose_plan
from ..runtime.cuda.products.precision import rounds
from .contenders.choice import contenders_for
from .contenders.contender import Contender
from .contenders.kinds import DEFAULT_KINDS, Kind
from .inputs import DTYPES, Call, Inputs
from .rows import SHORT_STEPS, BenchError, Row
from .time_limit import TooLong, within
from .timing import SECONDS_PER_PHASE, Figure, WarmUp, free, peak_mib, timed, wait, warm_up

Phase = Literal["forward", "forward_backward", "inference"]
PHASES: tuple[Phase, ...] = ("forward", "forward_backward", "inference")
_LEAST_RUNS = 3
# The share of the time limit in which contenders may start.
_TO_START = 0.6


@dataclass
class Result:
    """The measurements of a contender.

    Attributes:
        contender: the contender.
        figures: the times, by phase.
        failures: why a phase did not run, by phase; "prepare" stands for all phases.
        first_seconds: seconds to its first result in this process, compilation included.
        warm_ups: the first runs of each phase, which may compile too.
        peak_mib: peak memory of a training step, without the inputs; None on the CPU.
        plan: the plan of rnnc's kernels on a GPU, with its estimates.
        absent: why it cannot take part, for example because its variant has no plan for the row.
    """

    contender: Contender
    figures: dict[Phase, Figure] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_seconds: float | None = None
    warm_ups: dict[Phase, WarmUp] = field(default_factory=dict)
    peak_mib: float | None = None
    plan: Plan | None = None
    absent: str = ""

    @property
    def planned(self) -> tuple[int, int] | None:
        """The plan's estimates in ns per step, forward and backward."""
        return self.plan.nanoseconds if self.plan else None

    @property
    def runs_as(self) -> str:
        """The variant of the plan that runs, which `"auto"` chooses; empty if there is no plan."""
        return self.plan.variant if self.plan else ""


@dataclass
class Comparison:
    """The measurements of a row.

    Attributes:
        row: the sizes.
        results: one per contender, including those that failed.
        left_out: why a contender was not started, by its name.
        first: seconds to the first result of a new process, by contender.
    """

    row: Row
    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    first: dict[str, dict[str, float | str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Options of a measurement.

    Attributes:
        device: "cpu" or "cuda".
        dtypes: names of dtypes.
        peer_dtypes: names of further dtypes for torch's own RNNs.
        kinds: kinds of contenders.
        repeat: timed runs of each contender and phase.
        queued: whether the GPU is kept busy until the host has queued a run, so that the times
            are the GPU's alone; otherwise it is idle when a run starts, and they include the
            host's.
        deadline: the `time.monotonic()` after which no contender starts; running ones stop at the
            minimum number of runs.
        ready: seconds in which a contender must be compiled and warm.
    """

    device: str = "cuda"
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    peer_dtypes: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = DEFAULT_KINDS
    repeat: int = 30
    queued: bool = False
    deadline: float = math.inf
    ready: float = math.inf


def measure_row(row: Row, cell: CellSpec, settings: Settings) -> Comparison:
    """Measure all contenders of a row in turns.

    Args:
        row: the sizes.
        cell: its cell.
        settings: how to measure.

    Returns:
        The measurements; a contender that fails has its reason.

    Example:
        >>> import rnnc
        >>> from rnnc.bench.measure import Settings, measure_row
        >>> from rnnc.bench.rows import Row
        >>> settings = Settings("cpu", ("float32",), kinds=("nn",), repeat=3)
        >>> found = measure_row(Row("lstm", 1, 4, 2, 64), rnnc.cells.lstm, settings)
        >>> [(r.contender.name, r.figures["forward"].runs) for r in found.results]
        [('nn.LSTM', 3)]
    """
    found = Comparison(row)
    calls = _started(found, cell, settings)
    for phase in PHASES:
        _measure_phase(phase, [(r, c) for r, c in calls if phase not in r.failures], settings)
    calls.clear()
    if {"compile", "compile-step"} & set(settings.kinds):
        torch.compiler.reset()  # it compiles a function for a few sizes only
    free(settings.device)
    return found


def _started(found: Comparison, cell: CellSpec, settings: Settings) -> list[tuple[Result, Call]]:
    """The warmed-up calls of all contenders that run; `found` gets the reasons of the others."""
    row, device, dtypes = found.row, settings.device, settings.dtypes
    shared = {d: Inputs(cell, row, d, device) for d in (*dtypes, *settings.peer_dtypes)}
    now = time.monotonic()
    last_start = now + _TO_START * (settings.deadline - now)
    calls: list[tuple[Result, Call]] = []
    for contender in contenders_for(
        row, cell, device, dtypes, settings.kinds, settings.peer_dtypes
    ):
        name = f"{contender.name}, {contender.dtype}"
        if time.monotonic() + contender.start > last_start:
            found.left_out[name] = "the time limit was reached" + (
                f": it would compile for {contender.start:.0f} s" if contender.start else ""
            )
            continue
        result = Result(contender)
        call = _prepared(result, shared[contender.dtype], settings)
        if result.absent:
            found.left_out[name] = result.absent
            continue
        found.results.append(result)
        if call is not None:
            calls.append((result, call))
    return calls


def short_row(row: Row, kinds: tuple[Kind, ...]) -> Row | None:
    """The row at few steps, if a loop is asked for that takes too long at all steps.

    Args:
        row: the row.
        kinds: kinds of contenders.
    """
    wanted = "compile" in kinds and row.steps > SHORT_STEPS
    return row.resized(steps=SHORT_STEPS) if wanted else None


def _prepared(result: Result, inputs: Inputs, settings: Settings) -> Call | None:
    """The warmed-up call; None and a reason in the result if it fails or takes too long."""
    try:
        with within(settings.ready):
            return _warmed_up(result, inputs, settings)
    except TooLong:
        result.absent = f"it was not compiled within {settings.ready:.0f} s"
        free(settings.device)
        return None


def _warmed_up(result: Result, inputs: Inputs, settings: Settings) -> Call | None:
    contender = result.contender
    try:
        result.plan = _plan(contender, inputs, settings.device)
        inputs.draw_all()
        wait(settings.device)
        start = time.perf_counter()
        call = contender.prepare(inputs)
        output = call.run()
        wait(settings.device)
        result.first_seconds = time.perf_counter() - start
        if not bool(output.isfinite().all()):
            result.failures["prepare"] = "its output is not finite"
            return None
        del output
    except (PlanError, BenchError) as error:
        result.absent = reason(error)
        return None
    except Exception as error:
        # Any error of a contender is reported, and the others go on.
        result.failures["prepare"] = reason(error)
        free(settings.device)
        return None
    for phase in PHASES:
        try:
            result.warm_ups[phase] = warm_up(_runner(call, phase), settings.device)
            if phase == "forward_backward":
                result.peak_mib = peak_mib(_runner(call, phase), settings.device)
        except Exception as error:
            result.failures[phase] = reason(error)
            free(settings.device)
    return call


def _plan(contender: Contender, inputs: Inputs, device: str) -> Plan | None:
    if device != "cuda" or contender.variant is None:
        return None
    row, dtype = inputs.row, DTYPES[contender.dtype]
    sizes = (row.heads, row.head_dim, row.batch, dtype, torch.cuda.current_device())
    return choose_plan(inputs.cell, *sizes, Choice(contender.variant), rounds(dtype, None))


def _runner(call: Call, phase: Phase) -> Callable[[], object]:
    if phase == "forward":
        return call.run
    if phase == "forward_backward":
        return call.step

    def run() -> object:
        with torch.no_grad():
            return call.run()

    return run


class _Turn(NamedTuple):
    result: Result
    run: Callable[[], object]
    ahead: float
    times: list[tuple[float, float]]

    def enough(self, late: bool) -> bool:
        spent = sum(device for device, _ in self.times) / 1e3
        return len(self.times) >= _LEAST_RUNS and (late or spent > SECONDS_PER_PHASE)


def _measure_phase(phase: Phase, calls: list[tuple[Result, Call]], settings: Settings) -> None:
    turns = [
        _Turn(r, _runner(c, phase), r.warm_ups[phase].ahead if settings.queued else 0, [])
        for r, c in calls
    ]
    for _ in range(settings.repeat):
        late = time.monotonic() > settings.deadline
        for turn in turns:
            if turn.enough(late) or phase in turn.result.failures:
                continue
            try:
                turn.times.append(timed(turn.run, settings.device, turn.ahead))
            except Exception as error:
                turn.result.failures[phase] = reason(error)
    for turn in turns:
        if turn.times and phase not in turn.result.failures:
            turn.result.figures[phase] = Figure.of(turn.times)


def reason(error: Exception) -> str:
    """An error in one line.

    Args:
        error: any.
    """
    if isinstance(error, PlanError):
        return f"no such plan: found {error.found}; wanted {error.wanted}"
    if isinstance(error, BenchError):
        return f"found {error.found}; wanted {error.wanted}; write {error.write}"
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:400]
