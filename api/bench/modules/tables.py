"""The tables of `rnnc bench --users` and `--ragged`, and what the users' cases come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from rich.markup import escape
from rich.table import Table

from ..table import plain_table
from .results import OURS, STEPPER, ModuleResult, Side


def users_table(found: Sequence[ModuleResult]) -> Table:
    """A line per case: milliseconds of rnnc and torch, and how many times as fast rnnc is."""
    clocks = _clocks(found)
    columns = [c for name in clocks.values() for c in (f"{name}, ms: rnnc / torch", "times")]
    table = plain_table("the slowest against torch first", ["case"], columns)
    for result in losses_first(found):
        times = result.times()
        cells = [
            cell
            for clock in clocks
            for cell in (_both(result, result.ours, clock), _times(result.times(clock)))
        ]
        name = f"{result.case}: {result.failure}" if result.failure else str(result.case)
        table.add_row(escape(name), *cells, style="red" if times and times < 1 else "")
    return table


def ragged_table(found: Sequence[ModuleResult]) -> Table:
    """A line per contender: milliseconds, and how many times as fast rnnc is."""
    clocks = _clocks(found)
    columns = [*(f"{name}, ms" for name in clocks.values()), "rnnc is faster"]
    table = plain_table("forward + backward", ["case", "contender"], columns)
    for result in found:
        case = str(result.case)
        for name, side in result.sides.items():
            times = result.faster_than(name) if name != OURS else None
            shown = "" if times is None else f"{times:.2f} times"
            table.add_row(case, name, *(_ms(side, clock) for clock in clocks), shown)
            case = ""
        for name, failure in result.failures.items():
            table.add_row(case, escape(f"{name}: did not run ({failure})"))
            case = ""
    return table


def losses_first(found: Sequence[ModuleResult]) -> list[ModuleResult]:
    """The results, those without a time first, then from the slowest against torch on."""
    return sorted(found, key=lambda result: result.times() or 0)


def summary(found: Sequence[ModuleResult]) -> list[str]:
    """Return what the cases come to, in lines."""
    measured = [(times, r) for r in losses_first(found) if (times := r.times())]
    missing = len(found) - len(measured)
    late = sum("time limit" in result.failure for result in found if not result.times())
    lines = [f"{missing} of {len(found)} cases did not run"] if missing else []
    lines[-1:] = [f"{each}, {late} of them for the time limit" if late else each for each in lines]
    if measured:
        worst, case = measured[0]
        means = [f"{geometric_mean(t for t, _ in measured):.2f} times torch by wall-clock"]
        on_device = [each for _, r in measured if (each := r.times("device"))]
        means += [f"{geometric_mean(on_device):.2f} times by GPU time"] if on_device else []
        slower = sum(times < 1 for times, _ in measured)
        lines += [
            f"geometric mean: {' and '.join(means)}",
            f"worst case: {worst:.2f} times ({case.case})",
            f"slower than torch: {slower} of {len(measured)} cases by wall-clock",
        ]
    for result in found:
        step, times = result.sides.get(STEPPER), result.times(name=STEPPER)
        if step and times:
            both = _both(result, step, "wall")
            lines.append(f"rnn.stepper, {result.case}: {both} ms, {_times(times)} times")
    return lines


def _clocks(found: Sequence[ModuleResult]) -> dict[str, str]:
    """The clocks of some results, and the names of their columns."""
    on_gpu = any(side.device for result in found for side in result.sides.values())
    return {"wall": "wall-clock", **({"device": "GPU"} if on_gpu else {})}


def _both(result: ModuleResult, side: Side | None, clock: str) -> str:
    """Milliseconds of a side of ours and of the faster of torch's."""
    return " / ".join(_ms(each, clock) for each in (side, result.peer))


def _ms(side: Side | None, clock: str) -> str:
    value = None if side is None else getattr(side, clock)
    return "-" if value is None else f"{value:.3g}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
