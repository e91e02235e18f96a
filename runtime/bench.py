"""`rnnc bench`: contenders side by side on the same inputs, in turns, by the device's own clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch

from ..cellspec.cell import CellSpec
from ..codegen.planner import plan_for
from ..codegen.shape import Dtype, PlanError, Shape
from .bench_contenders import DEFAULT_KINDS, Contender, Kind, contenders_for
from .bench_inputs import Call, Inputs
from .bench_rows import SHORT_STEPS, Row
from .bench_timing import SECONDS_A_PHASE, Figure, free, peak_mib, timed, wait, warm_up
from .device import device_limits

Phase = Literal["forward", "forward_backward", "inference"]
PHASES: tuple[Phase, ...] = ("forward", "forward_backward", "inference")
_LEAST_RUNS = 3


@dataclass
class Result:
    """What was measured of a contender.

    Attributes:
        contender: who.
        figures: by phase, of those that ran.
        failures: by phase, or "prepare" for all of them: why it did not run.
        first_seconds: until its first result in this process, compilation included.
        first_runs: seconds of each phase's first run, which may compile too.
        peak_mib: the most memory of a training step, above the inputs; None on the CPU.
        planned: the plan's estimates in ns a step, forward and backward.
        planless: why the row has no plan of that variant.
    """

    contender: Contender
    figures: dict[Phase, Figure] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_seconds: float | None = None
    first_runs: dict[Phase, float] = field(default_factory=dict)
    peak_mib: float | None = None
    planned: tuple[int, int] | None = None
    planless: str = ""


@dataclass
class Comparison:
    """What was measured of a row.

    Attributes:
        row: the sizes.
        results: of each contender, failed ones too.
        left_out: who was not started, and why.
        first: seconds to the first result of a fresh process, by contender, where asked for.
    """

    row: Row
    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    first: dict[str, dict[str, float | str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """How rows are measured.

    Attributes:
        device: "cpu" or "cuda".
        dtypes: names of dtypes.
        kinds: of contenders.
        repeat: timed runs of each contender and phase.
        queued: whether the GPU is kept busy until the host has queued a run, so that times are
            the GPU's alone; else it is idle at a run's start, and a slow host shows.
        deadline: `time.monotonic()` after which no contender is started.
    """

    device: str = "cuda"
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    kinds: tuple[Kind, ...] = DEFAULT_KINDS
    repeat: int = 30
    queued: bool = False
    deadline: float = math.inf


def measure_row(row: Row, cell: CellSpec, settings: Settings) -> Comparison:
    """All contenders of a row, in turns.

    Args:
        row: the sizes.
        cell: its cell.
        settings: how to measure.

    Returns:
        What each took. A contender that fails is there with its reason.

    Example:
        >>> import rnnc
        >>> from rnnc.runtime.bench import Settings, measure_row
        >>> from rnnc.runtime.bench_rows import Row
        >>> settings = Settings("cpu", ("float32",), ("nn",), repeat=3)
        >>> found = measure_row(Row("lstm", 1, 4, 2, 64), rnnc.cells.lstm, settings)
        >>> [(r.contender.name, r.figures["forward"].runs) for r in found.results]
        [('nn.LSTM', 3)]
    """
    found = Comparison(row)
    calls = _started(found, cell, settings)
    for phase in PHASES:
        _measure_phase(phase, [(r, c) for r, c in calls if phase not in r.failures], settings)
    calls.clear()
    free(settings.device)
    return found


def _started(found: Comparison, cell: CellSpec, settings: Settings) -> list[tuple[Result, Call]]:
    """The calls of all who can be measured, warm; the others are in `found` with the reason."""
    row, device = found.row, settings.device
    shared = {d: Inputs(cell, row, d, device) for d in settings.dtypes}
    calls: list[tuple[Result, Call]] = []
    for contender in contenders_for(row, cell, device, settings.dtypes, settings.kinds):
        if time.monotonic() > settings.deadline:
            found.left_out[f"{contender.name}, {contender.dtype}"] = "the time limit was reached"
            continue
        inputs = shared[contender.dtype]
        result = Result(contender)
        call = _prepared(result, inputs, settings)
        if result.planless:
            found.left_out[f"{contender.name}, {contender.dtype}"] = result.planless
            continue
        found.results.append(result)
        if call is not None:
            calls.append((result, call))
    return calls


def short_row(row: Row, kinds: tuple[Kind, ...]) -> Row | None:
    """The row at few steps, where loops are asked for that take too long at all of them.

    Args:
        row: the row.
        kinds: of contenders.
    """
    wanted = "compile" in kinds and row.steps > SHORT_STEPS
    return row.resized(steps=SHORT_STEPS) if wanted else None


def _prepared(result: Result, inputs: Inputs, settings: Settings) -> Call | None:
    """The call, warm; what goes wrong is the contender's result."""
    contender = result.contender
    try:
        result.planned = _planned(contender, inputs, settings.device)
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
    except PlanError as error:
        result.planless = _reason(error)
        return None
    except Exception as error:
        # Whatever a contender raises: it is reported, and the others go on.
        result.failures["prepare"] = _reason(error)
        free(settings.device)
        return None
    for phase in PHASES:
        try:
            result.first_runs[phase] = warm_up(_runner(call, phase), settings.device)
            if phase == "forward_backward":
                result.peak_mib = peak_mib(_runner(call, phase), settings.device)
        except Exception as error:
            result.failures[phase] = _reason(error)
            free(settings.device)
    return call


def _planned(contender: Contender, inputs: Inputs, device: str) -> tuple[int, int] | None:
    if device != "cuda" or contender.variant is None:
        return None
    row = inputs.row
    dtype: Dtype = contender.dtype  # type: ignore[assignment]
    shape = Shape(row.heads, row.head_dim, row.batch, row.steps, dtype)
    limits = device_limits(torch.cuda.current_device())
    return plan_for(inputs.cell, shape, limits, contender.variant).nanoseconds


def _runner(call: Call, phase: Phase) -> Callable[[], object]:
    if phase == "forward":
        return call.run
    if phase == "forward_backward":
        return call.step

    def run() -> object:
        with torch.no_grad():
            return call.run()

    return run


def _measure_phase(phase: Phase, calls: list[tuple[Result, Call]], settings: Settings) -> None:
    runners = [(result, _runner(call, phase)) for result, call in calls]
    times: list[list[tuple[float, float]]] = [[] for _ in runners]
    spent = [0.0] * len(runners)
    for turn in range(settings.repeat):
        for i, (result, run) in enumerate(runners):
            enough = turn >= _LEAST_RUNS and spent[i] > SECONDS_A_PHASE
            if enough or phase in result.failures:
                continue
            try:
                times[i].append(timed(run, settings.device, settings.queued))
            except Exception as error:
                result.failures[phase] = _reason(error)
                continue
            spent[i] += times[i][-1][0] / 1e3
    for (result, _), found in zip(runners, times, strict=True):
        if found and phase not in result.failures:
            result.figures[phase] = Figure.of(found)


def _reason(error: Exception) -> str:
    """The first line of an error that says something, or a plan's found and wanted."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, PlanError):
        return "no such plan: " + "; ".join(lines[1:3])
    said = " ".join(lines[:4])
    return f"{type(error).__name__}: {said}"[:400]
