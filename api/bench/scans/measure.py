"""Times the cases of scans: contenders in turns, on tensors that no cache holds."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.library import load
from ...codegen.shape import ELEMENT_BYTES, Dtype
from ...runtime.cuda.driver.device import device_limits
from ..contenders.choice import contenders_for
from ..contenders.contender import Contender
from ..contenders.kinds import Kind
from ..contenders.ours import eager_loop, scan_call
from ..errors import reason
from ..inputs import Inputs
from ..measure import chosen_plan
from ..rows import Pair
from ..time_limit import within
from ..timing import clock_of, free
from ..turns import in_turns
from .cases import ScanCase
from .floor import floor_of

_ENOUGH = 300.0  # milliseconds: a contender that took as long has no further runs
_WARM_UPS = 3
_LEAST_SETS, _MOST_SETS = 2, 8  # of tensors, which are run one after the other


@dataclass(frozen=True)
class ScanInputs(Inputs):
    """The tensors of a case; each `Input` of the cell has a value per unit, and a gradient."""

    @cached_property
    def given(self) -> dict[str, Tensor]:
        """(T, B, N, D) each."""
        row = self.row
        sizes = (row.steps, row.batch, row.heads, row.head_dim)
        return {i.name: self.draw(*sizes) for i in self.cell.inputs}

    def leaves(self) -> list[Tensor]:
        """The inputs of a scan that get gradients."""
        return [*super().leaves(), *self.given.values()]


@dataclass
class ScanResult:
    """Times of a case.

    Attributes:
        case: the case.
        dtype: of all tensors.
        sets: sets of tensors that take turns, together larger than any cache.
        floor: the least milliseconds; None for a cell with R.
        took: the milliseconds of each contender that ran, by name.
        notes: how a contender's work differs from the case's, by name.
        left_out: why one did not run, by name.
    """

    case: ScanCase
    dtype: Dtype
    sets: int
    floor: Pair | None
    took: dict[str, Pair] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        pairs = {name: pair._asdict() for name, pair in self.took.items()}
        floor = self.floor and self.floor._asdict()
        return {"name": str(self.case), **asdict(self), "floor": floor, "took": pairs}


def measure_scans(
    case: ScanCase,
    device: str,
    dtype: Dtype,
    speed: float,
    repeat: int,
    until: float = math.inf,
    ready: float = math.inf,
) -> ScanResult:
    """Time the contenders of a case in turns, behind queued work.

    A run takes all sets of tensors once, and its time is shared by them.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        dtype: of all tensors.
        speed: of a copy, in bytes per second, as `copy_speed` gives it.
        repeat: runs of each contender at most.
        until: the `time.monotonic()` after which no contender starts.
        ready: seconds in which one must be compiled.

    Example:
        >>> from rnnc.bench.rows import Row
        >>> from rnnc.bench.scans.cases import ScanCase
        >>> from rnnc.bench.scans.measure import measure_scans
        >>> case = ScanCase(Row("mingru", 1, 4, 2, 3), ways=("auto",), peers=("fla",))
        >>> found = measure_scans(case, "cpu", "float32", 1e10, 3)
        >>> list(found.took), list(found.left_out)
        (['rnnc auto'], ['fla chunk_hgrn'])
    """
    cell = load(case.row.cell)
    sets = _sets(case, cell, device, dtype)

    @cache
    def inputs(dtype: str) -> list[Inputs]:
        return [ScanInputs(cell, case.row, dtype, device) for _ in range(sets)]

    floor = floor_of(cell, case.row, dtype, speed, device)
    found = ScanResult(case, dtype, sets, floor)
    clocks: dict[tuple[str, str], Callable[[], float]] = {}
    for contender in _contenders(case, cell, device, dtype):
        name = (
            contender.name if contender.dtype == dtype else f"{contender.name}, {contender.dtype}"
        )
        if time.monotonic() > until:
            found.left_out[name] = "the time limit was reached"
            continue
        try:
            with within(ready):
                own = _clocks(contender, inputs(contender.dtype))
                if contender.variant == "auto" and device == "cuda":
                    name += f" ({chosen_plan(cell, case.row, dtype).variant})"
        except Exception as error:
            # Any error of a contender is a line of the table, and the others go on.
            found.left_out[name] = reason(error)
            free(device)
            continue
        clocks |= {(name, phase): clock for phase, clock in own.items()}
        found.notes |= {name: contender.note} if contender.note else {}
    times = in_turns(
        clocks, repeat, until, shuffled=True, enough=lambda times: sum(times) * sets > _ENOUGH
    )
    for name in dict.fromkeys(name for name, _ in clocks):
        found.took[name] = Pair(*(median(times[name, phase]) for phase in Pair._fields))
    clocks.clear()
    inputs.cache_clear()
    free(device)
    return found


def _sets(case: ScanCase, cell: CellSpec, device: str, dtype: Dtype) -> int:
    """Return how many sets of tensors are more than twice the cache."""
    if device == "cpu":
        return _LEAST_SETS
    row, values = case.row, len(cell.input_gates) + len(cell.inputs)
    each = row.batch * row.steps * row.hidden * values * ELEMENT_BYTES[dtype]
    cache = device_limits(torch.cuda.current_device()).l2
    return min(max(_LEAST_SETS, math.ceil(2 * cache / each)), _MOST_SETS)


def _contenders(case: ScanCase, cell: CellSpec, device: str, dtype: Dtype) -> Iterator[Contender]:
    """The ways of rnnc, then the peers; those that have no kernels of the dtype in float32."""
    for way in case.ways:
        if way == "reference":
            yield eager_loop(dtype)
            continue
        make = scan_call("auto" if device == "cpu" else device, way, case.resets)
        yield Contender(f"rnnc {way}", dtype, True, "wx ready", make, variant=way)
    for kind in case.peers:
        own = _peers(case, cell, device, dtype, kind)
        yield from own or _peers(case, cell, device, "float32", kind)


def _peers(
    case: ScanCase, cell: CellSpec, device: str, dtype: Dtype, kind: Kind
) -> list[Contender]:
    found = contenders_for(case.row, cell, device, [dtype], [kind])
    return [each for each in found if each.name != "eager loop"]


def _clocks(contender: Contender, inputs: Sequence[Inputs]) -> dict[str, Callable[[], float]]:
    """The clocks of a contender by phase, warm."""
    for each in inputs:
        each.draw_all()
    calls, device = [contender.prepare(each) for each in inputs], inputs[0].device
    return {
        "forward": _shared([call.run for call in calls], device),
        "forward_backward": _shared([call.step for call in calls], device),
    }


def _shared(runs: Sequence[Callable[[], object]], device: str) -> Callable[[], float]:
    """A clock of runs one after the other, whose time is shared by them.

    Results stay until as many others are there, so that their memory takes turns too.
    """
    kept: deque[object] = deque(maxlen=len(runs))

    def all_runs() -> None:
        for run in runs:
            kept.append(run())

    clock = clock_of(all_runs, device, _WARM_UPS)
    return lambda: clock() / len(runs)
