"""Times the cases of all peers, and gives each result the form of the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ...cellspec.library import load
from ..contenders.kinds import Kind
from ..measure import Settings, measure_row
from ..results import PHASES, Comparison, Result
from ..timing import SECONDS_PER_PHASE
from .cases import PeerCase, float32_products


def measure_peers(
    case: PeerCase,
    device: str,
    kinds: Iterable[Kind],
    repeat: int,
    deadline: float,
    ready: float,
    seconds: float = SECONDS_PER_PHASE,
) -> dict[str, Any]:
    """Time contenders of a case in turns, behind queued work.

    The result has the sizes, the times in milliseconds of each contender that ran, and the reason
    of each that did not. None starts after `deadline`, a `time.monotonic()`, and each must be
    compiled in `ready` seconds. A slow contender runs for some `seconds`, three times at least.

    Example:
        >>> import time
        >>> from rnnc.bench.peers.cases import peer_cases
        >>> from rnnc.bench.peers.measure import measure_peers
        >>> case, end = peer_cases("cpu", "2")[0], time.monotonic() + 9
        >>> found = measure_peers(case, "cpu", ["auto", "fla"], 3, end, 9.0)
        >>> found["contenders"][0]["name"], list(found["left_out"])
        ('rnnc', ['fla chunk_hgrn, float32'])
    """
    settings = Settings(
        device,
        dtypes=case.dtypes,
        peer_dtypes=case.peer_dtypes,
        kinds=tuple(kinds),
        repeat=repeat,
        queued=True,
        deadline=deadline,
        ready=ready,
        seconds=seconds,
    )
    with float32_products(case.float32):
        return _record(case, measure_row(case.row, load(case.row.cell), settings))


def merged(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """A case with the contenders of two runs; those of the later one replace the earlier's.

    Example:
        >>> from rnnc.bench.peers.measure import merged
        >>> one = {"contenders": [{"name": "a", "dtype": "int8"}], "left_out": {"b, int8": ""}}
        >>> two = {"contenders": [{"name": "b", "dtype": "int8"}], "left_out": {}}
        >>> both = merged(one, two)
        >>> [c["name"] for c in both["contenders"]], both["left_out"]
        (['a', 'b'], {})
    """
    if before is None:
        return now
    found = {f"{c['name']}, {c['dtype']}": c for c in before["contenders"]}
    found |= {f"{c['name']}, {c['dtype']}": c for c in now["contenders"]}
    left = {**before["left_out"], **now["left_out"]}
    left = {name: why for name, why in left.items() if name not in found}
    return {**now, "contenders": list(found.values()), "left_out": left}


def _record(case: PeerCase, found: Comparison) -> dict[str, Any]:
    row = found.row
    sizes = {name: getattr(row, name) for name in ("cell", "heads", "head_dim", "batch", "steps")}
    return {
        "name": str(case),
        **sizes,
        "float32": case.float32,
        **({"published": asdict(case.published)} if case.published else {}),
        "contenders": [_contender(result) for result in found.results],
        "left_out": found.left_out,
    }


def _contender(result: Result) -> dict[str, Any]:
    """The medians of a contender, and what to know of them."""
    contender, figures = result.contender, result.figures
    times = {phase: figures[phase].median if phase in figures else None for phase in PHASES}
    first = result.first_seconds
    return {
        "name": contender.name,
        "dtype": contender.dtype,
        "terms": contender.terms,
        "runs_as": result.runs_as,
        **{phase: took and float(f"{took:.4g}") for phase, took in times.items()},
        "peak_mib": result.peak_mib and round(result.peak_mib, 1),
        "first_call_seconds": first and round(first, 3),
        "note": contender.note,
        "failures": result.failures,
    }
