"""Times the cases of all peers, and gives each result the form of the file."""

from __future__ import annotations

from typing import Any

from ...cellspec.library import load
from ..measure import PHASES, Comparison, Result, Settings, measure_row
from .cases import PeerCase


def measure_peers(
    case: PeerCase, device: str, repeat: int, deadline: float, built: bool = False
) -> dict[str, Any]:
    """Time all contenders of a case in turns, behind queued work.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        repeat: timed runs of each contender and phase.
        deadline: the `time.monotonic()` after which no contender starts.
        built: whether the kernels that take long to compile were compiled before.

    Returns:
        The sizes, and the times in milliseconds of each contender that ran; the reason of each that
        did not.

    Example:
        >>> import time
        >>> from rnnc.bench.peers.cases import peer_cases
        >>> from rnnc.bench.peers.measure import measure_peers
        >>> found = measure_peers(peer_cases("cpu", "2")[0], "cpu", 3, time.monotonic() + 9)
        >>> found["contenders"][0]["name"], sorted(found["left_out"])[0]
        ('rnnc', 'accelerated-scan, float32')
    """
    settings = Settings(
        device,
        dtypes=case.dtypes,
        peer_dtypes=case.peer_dtypes,
        kinds=case.kinds,
        repeat=repeat,
        queued=True,
        deadline=deadline,
        built=built,
    )
    return _record(case, measure_row(case.row, load(case.row.cell), settings))


def _record(case: PeerCase, found: Comparison) -> dict[str, Any]:
    row = found.row
    sizes = {name: getattr(row, name) for name in ("cell", "heads", "head_dim", "batch", "steps")}
    return {
        "name": str(case),
        **sizes,
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
