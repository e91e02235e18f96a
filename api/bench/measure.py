"""Measures the contenders of a case in turns, on the same inputs."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle, islice

import torch

from ..cellspec.cell import CellSpec
from ..codegen.plan import Plan
from ..codegen.shape import DIRECTIONS, PlanError
from ..runtime.call.layer_call import Choice
from ..runtime.cuda.choose import PlanQuestion, choose_plan
from ..runtime.cuda.driver.device import device_limits
from ..runtime.cuda.products.multiply import rounds
from .cases import RowCase, float32_products
from .contenders.choice import contenders_for
from .contenders.contender import Kind
from .errors import reason
from .inputs import DTYPES, Call, Inputs
from .results import PHASES, Comparison, Phase, Result
from .rows import SHORT_STEPS, BenchError, Row
from .time_limit import within
from .timing import SECONDS_PER_PHASE, WARM_UPS, Figure, free, peak_mib, timed, wait, warm_up
from .turns import in_turns

# The share of the time limit in which contenders may start.
_TO_START = 0.6
_LEAST_SETS, _MOST_SETS = 2, 8  # of tensors that take turns
Calls = list[Call]  # of a contender, one per set of tensors


@dataclass(frozen=True)
class Settings:
    """Options of a measurement.

    Attributes:
        device: "cpu" or "cuda".
        repeat: timed runs of each contender and phase.
        queued: whether the GPU is busy until the host has queued a run, whose time is the GPU's
            alone then; otherwise the GPU is idle when a run starts.
        deadline: the `time.monotonic()` after which no contender starts, and others stop early.
        ready: seconds in which a contender must be compiled and warm.
        seconds: after which a phase of a contender has enough runs, if they are slow.
    """

    device: str = "cuda"
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
            f"milliseconds: {clock}; median of at most {self.repeat} runs after {WARM_UPS},"
            f" contenders in turns, in an order drawn for every two rounds, of which the second has"
            f" its reverse, each run {start}. Gradients of all inputs and weights."
            " Peers are compared on the same terms: wx ready, or with input GEMM"
        )


def measure(case: RowCase, cell: CellSpec, settings: Settings) -> Comparison:
    """Measure all contenders of a case in turns.

    Example:
        >>> import rnnc
        >>> from rnnc.bench.cases import RowCase
        >>> from rnnc.bench.measure import Settings, measure
        >>> from rnnc.bench.rows import Row
        >>> case = RowCase(Row("lstm", 1, 4, 2, 64), ("float32",), ("nn", "fla"))
        >>> found = measure(case, rnnc.cells.lstm, Settings("cpu", repeat=3))
        >>> [(r.contender.name, r.figures["forward"].runs) for r in found.results]
        [('nn.LSTM', 3)]
        >>> list(found.left_out)
        ['fla chunk_hgrn, float32']
    """
    found = Comparison(case)
    with float32_products(case.float32):
        calls = _started(found, cell, settings)
        for phase in PHASES:
            _measure_phase(phase, [(r, c) for r, c in calls if phase not in r.failures], settings)
    calls.clear()
    if {"compile", "compile-step"} & set(case.kinds):
        torch.compiler.reset()  # it compiles a function for a few sizes only
    free(settings.device)
    return found


def _started(found: Comparison, cell: CellSpec, settings: Settings) -> list[tuple[Result, Calls]]:
    """The warmed-up calls of all contenders that run; `found` gets the reasons of the others."""
    case, device = found.case, settings.device
    sets = _sets(case, cell, device)

    @cache
    def inputs(dtype: str) -> list[Inputs]:
        return [Inputs(cell, case.row, dtype, device, case.uncached) for _ in range(sets)]

    now = time.monotonic()
    last_start = now + _TO_START * (settings.deadline - now)
    calls: list[tuple[Result, Calls]] = []
    asked = case.dtypes, case.kinds, case.peer_dtypes, case.variants, case.resets
    for contender in contenders_for(case.row, device, *asked):
        name = f"{contender.name}, {contender.dtype}"
        if time.monotonic() + contender.start > last_start:
            found.left_out[name] = "the time limit was reached" + (
                f": it would compile for {contender.start:.0f} s" if contender.start else ""
            )
            continue
        result = Result(contender)
        own = _prepared(result, inputs(contender.dtype), settings)
        if result.absent:
            found.left_out[name] = result.absent
            continue
        found.results.append(result)
        if own:
            calls.append((result, own))
    return calls


def _sets(case: RowCase, cell: CellSpec, device: str) -> int:
    """Return how many sets of tensors a run takes: of uncached ones, more than twice the cache."""
    if not case.uncached:
        return 1
    if device == "cpu":
        return _LEAST_SETS
    row, values = case.row, len(cell.input_gates) + len(cell.inputs)
    each = row.batch * row.steps * row.hidden * values * DTYPES[case.dtypes[0]].itemsize
    cache = device_limits(torch.cuda.current_device()).l2
    return min(max(_LEAST_SETS, math.ceil(2 * cache / each)), _MOST_SETS)


def short_row(row: Row, kinds: tuple[Kind, ...]) -> Row | None:
    """The row at few steps, if a loop is asked for that takes too long at all steps."""
    wanted = "compile" in kinds and row.steps > SHORT_STEPS
    return row.resized(steps=SHORT_STEPS) if wanted else None


def _prepared(result: Result, inputs: Sequence[Inputs], settings: Settings) -> Calls:
    """The warmed-up calls; none and a reason in the result if one fails or takes too long."""
    try:
        with within(settings.ready):
            return _warmed_up(result, inputs, settings)
    except TimeoutError as error:
        result.absent = reason(error)
        free(settings.device)
        return []


def _warmed_up(result: Result, inputs: Sequence[Inputs], settings: Settings) -> Calls:
    contender, first = result.contender, inputs[0]
    try:
        if settings.device == "cuda" and contender.variant is not None:
            sizes = (first.cell, first.row, contender.dtype)
            result.plan = chosen_plan(*sizes, contender.variant)
        for each in inputs:
            each.draw_all()
        wait(settings.device)
        start = time.perf_counter()
        calls = [contender.prepare(first)]
        output = calls[0].run()
        wait(settings.device)
        result.first_seconds = time.perf_counter() - start
        if not bool(output.isfinite().all()):
            result.failures["prepare"] = "its output is not finite"
            return []
        del output
        calls += map(contender.prepare, inputs[1:])
    except (PlanError, BenchError) as error:
        result.absent = reason(error)
        return []
    except Exception as error:
        # Any error of a contender is reported, and the others go on.
        result.failures["prepare"] = reason(error)
        free(settings.device)
        return []
    for phase in PHASES:
        try:
            run = partial(_runner(calls, phase), len(calls))
            result.warm_ups[phase] = warm_up(run, settings.device, WARM_UPS, settings.seconds)
            if phase == "forward_backward":
                result.peak_mib = peak_mib(calls[0].step, settings.device)
        except Exception as error:
            result.failures[phase] = reason(error)
            free(settings.device)
    return calls


def chosen_plan(cell: CellSpec, row: Row, dtype: str, variant: str = "auto") -> Plan:
    """The plan of a row's kernels on the current GPU, with torch's flags of precision.

    Raises:
        PlanError: there is none of this variant.
    """
    kind, index = DTYPES[dtype], torch.cuda.current_device()
    sizes = (row.heads, row.head_dim, row.batch, kind, index)
    question = PlanQuestion(cell, *sizes, Choice(variant), rounds(kind, None))
    return Plan(*(choose_plan(question, each).kernel(each) for each in DIRECTIONS))


def _runner(calls: Calls, phase: Phase) -> Callable[[int], object]:
    """What makes some calls of a phase, one after the other, from where it stopped the last time.

    Results stay until as many others are there, so that their memory takes turns too.
    """
    runs = [call.step if phase == "forward_backward" else call.run for call in calls]
    kept: deque[object] = deque(maxlen=len(runs))
    following = cycle(runs)

    def run(count: int) -> object:
        with torch.set_grad_enabled(phase != "inference"):
            if len(runs) == 1:
                return runs[0]()
            kept.extend(each() for each in islice(following, count))
        return None

    return run


def _measure_phase(phase: Phase, calls: list[tuple[Result, Calls]], settings: Settings) -> None:
    def failed(place: int, error: Exception) -> None:
        calls[place][0].failures[phase] = reason(error)

    def clock(place: int) -> Callable[[], tuple[float, float]]:
        result, own = calls[place]
        count, made = result.warm_ups[phase].queued(len(own))
        run, ahead = _runner(own, phase), made.ahead if settings.queued else 0

        def once() -> tuple[float, float]:
            if count < len(own):
                run(len(own) - count)  # what the next ones read is in no cache
            device, host = timed(partial(run, count), settings.device, ahead)
            return device / count, host / count

        return once

    times = in_turns(
        {place: clock(place) for place in range(len(calls))},
        settings.repeat,
        settings.deadline,
        shuffled=True,
        enough=lambda runs: sum(device for device, _ in runs) > 1e3 * settings.seconds,
        failed=failed,
    )
    for place, (result, _) in enumerate(calls):
        if phase not in result.failures:
            result.figures[phase] = Figure.of(times[place])
