"""The tables of `rnnc bench --users` and `--ragged`, and what the users' cases come to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.table import Table

from ..table import plain_table
from .contenders import OURS
from .measure import Result, Side, UserResult


def users_table(found: Sequence[UserResult], device: str) -> Table:
    """A line per case: milliseconds of rnnc and torch, and how many times as fast rnnc is."""
    columns = ["wall-clock, idle device", "times"]
    columns += ["GPU, full queue", "times", "host"] if device == "cuda" else []
    table = plain_table("ms, rnnc / torch", ["case"], columns)
    for result in losses_first(found):
        slower = result.times is not None and result.times < 1
        cells = [_both(result, "wall"), _times(result.times)]
        if device == "cuda":
            cells += [_both(result, "device"), _times(result.device_times), _both(result, "host")]
        name = f"{result.case}: {result.failure}" if result.failure else str(result.case)
        table.add_row(name, *cells, style="red" if slower else "")
    return table


def ragged_table(found: Sequence[Result], device: str) -> Table:
    """A line per contender: milliseconds, and how many times as fast rnnc is."""
    columns = ["wall-clock", *(["GPU"] if device == "cuda" else []), "rnnc is faster"]
    table = plain_table("forward + backward, ms", ["case", "contender"], columns)
    for result in found:
        case = str(result.case)
        for name, side in result.sides.items():
            times = result.faster_than(name) if name != OURS else None
            on_device = [] if side.device is None else [f"{side.device:.3g}"]
            shown = "" if times is None else f"{times:.2f} times"
            table.add_row(case, name, f"{side.wall:.3g}", *on_device, shown)
            case = ""
        for name, failure in result.failures.items():
            table.add_row(case, f"{name}: {failure}")
            case = ""
    return table


def losses_first(found: Sequence[UserResult]) -> list[UserResult]:
    """The results, those without a time first, then from the slowest against torch on."""
    return sorted(found, key=lambda result: result.times or 0)


def summary(found: Sequence[UserResult]) -> str:
    """Return what the cases come to, in lines, of which the last are slower than torch."""
    measured = [(r.times, r) for r in losses_first(found) if r.times is not None]
    missing = len(found) - len(measured)
    lines = [f"{missing} of {len(found)} cases did not run"] if missing else []
    steps = [r for r in found if r.stepper and r.stepper_times]
    lines += [
        f"rnn.stepper, {r.case}: {_ms(r.stepper, 'wall')} / {_ms(r.peer, 'wall')} ms,"
        f" {_times(r.stepper_times)} times; host {_ms(r.stepper, 'host')} ms"
        for r in steps
    ]
    if not measured:
        return "\n".join(lines)
    times = [each for each, _ in measured]
    lines.append(
        f"geometric mean: {statistics.geometric_mean(times):.2f} times torch by wall-clock"
    )
    on_device = [r.device_times for _, r in measured if r.device_times]
    if on_device:
        mean = statistics.geometric_mean(on_device)
        lines.append(f"geometric mean: {mean:.2f} times torch by GPU time")
    losses = [(each, result.case) for each, result in measured if each < 1]
    lines += [
        f"worst case: {times[0]:.2f} times ({measured[0][1].case})",
        f"slower than torch: {len(losses)} of {len(times)} cases",
        *(f"  {each:.2f} times: {case}" for each, case in losses),
    ]
    return "\n".join(lines)


def _both(result: UserResult, clock: str) -> str:
    return " / ".join(_ms(side, clock) for side in (result.ours, result.peer))


def _ms(side: Side | None, clock: str) -> str:
    value = None if side is None else getattr(side, clock)
    return "-" if value is None else f"{value:.3g}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
