"""Measures the contenders of a row in turns, on the same inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from ..cellspec.cell import CellSpec
from ..codegen.plan import Plan
from ..codegen.shape import PlanError
from ..runtime.call.layer_call import Choice
from ..runtime.cuda.choose import PlanQuestion, choose_plan
from ..runtime.cuda.products.multiply import rounds
from .contenders.choice import contenders_for
from .contenders.kinds import DEFAULT_KINDS, Kind
from .errors import reason
from .inputs import DTYPES, Call, Inputs
from .results import PHASES, Comparison, Phase, Result
from .rows import SHORT_STEPS, BenchError, Row
from .time_limit import within
from .timing import SECONDS_PER_PHASE, WARM_UPS, Figure, free, peak_mib, timed, wait, warm_up
from .turns import in_turns

# The share of the time limit in which contenders may start.
_TO_START = 0.6


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
        seconds: after which a phase of a contender has enough runs, if they are slow.
    """

    device: str = "cuda"
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    peer_dtypes: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = DEFAULT_KINDS
    repeat: int = 30
    queued: bool = False
    deadline: float = math.inf
    ready: float = math.inf
    seconds: float = SECONDS_PER_PHASE

    @property
    def method(self) -> str:
        """Method of timing a run, for the record."""
        clock = "CUDA events" if self.device == "cuda" else "the host's clock"
        start = "behind queued work" if self.queued else "from an idle device"
        return (
            f"{clock}; median of at most {self.repeat} runs after {WARM_UPS}, contenders"
            f" in turns, each run {start}; milliseconds. Gradients of all inputs and weights."
            " Peers are compared on the same terms: wx ready, or with input GEMM"
        )


def measure_row(row: Row, cell: CellSpec, settings: Settings) -> Comparison:
    """Measure all contenders of a row in turns.

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
    """The row at few steps, if a loop is asked for that takes too long at all steps."""
    wanted = "compile" in kinds and row.steps > SHORT_STEPS
    return row.resized(steps=SHORT_STEPS) if wanted else None


def _prepared(result: Result, inputs: Inputs, settings: Settings) -> Call | None:
    """The warmed-up call; None and a reason in the result if it fails or takes too long."""
    try:
        with within(settings.ready):
            return _warmed_up(result, inputs, settings)
    except TimeoutError as error:
        result.absent = reason(error)
        free(settings.device)
        return None


def _warmed_up(result: Result, inputs: Inputs, settings: Settings) -> Call | None:
    contender = result.contender
    try:
        if settings.device == "cuda" and contender.variant is not None:
            sizes = (inputs.cell, inputs.row, contender.dtype)
            result.plan = chosen_plan(*sizes, contender.variant)
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
            run = _runner(call, phase)
            result.warm_ups[phase] = warm_up(run, settings.device, WARM_UPS, settings.seconds)
            if phase == "forward_backward":
                result.peak_mib = peak_mib(run, settings.device)
        except Exception as error:
            result.failures[phase] = reason(error)
            free(settings.device)
    return call


def chosen_plan(cell: CellSpec, row: Row, dtype: str, variant: str = "auto") -> Plan:
    """The plan of a row's kernels on the current GPU, with torch's flags of precision.

    Raises:
        PlanError: there is none of this variant.
    """
    kind, index = DTYPES[dtype], torch.cuda.current_device()
    sizes = (row.heads, row.head_dim, row.batch, kind, index)
    return choose_plan(PlanQuestion(cell, *sizes, Choice(variant), rounds(kind, None)))


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
    def failed(place: int, error: Exception) -> None:
        calls[place][0].failures[phase] = reason(error)

    clocks = {
        place: partial(
            timed,
            _runner(call, phase),
            settings.device,
            result.warm_ups[phase].ahead if settings.queued else 0,
        )
        for place, (result, call) in enumerate(calls)
    }
    times = in_turns(
        clocks,
        settings.repeat,
        settings.deadline,
        enough=lambda runs: sum(device for device, _ in runs) > 1e3 * settings.seconds,
        failed=failed,
    )
    for place, (result, _) in enumerate(calls):
        if phase not in result.failures:
            result.figures[phase] = Figure.of(times[place])
