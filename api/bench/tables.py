"""The tables of `rnnc bench` and of the pages, from records of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from .results import PHASES, TERMS, Comparison, called, median_of
from .suites.checks import Check
from .table import pair, plain_table

Case = dict[str, Any]  # as `Comparison.record` gives it
Contender = dict[str, Any]  # one of its contenders

# Columns that a table has where some case has figures for them.
_MORE: dict[str, Callable[[Case, Contender], str]] = {
    "MiB": lambda _, each: "" if each["peak_mib"] is None else f"{each['peak_mib']:.0f}",
    "first call, s": lambda _, each: f"{each['first_call_seconds'] or 0:.2g}",
    "us per step": lambda _, each: per_step(each, "nanoseconds_a_step"),
    "by the model": lambda _, each: per_step(each, "planned_nanoseconds_a_step"),
    "rnnc is faster": lambda case, each: _faster(case, each),
    "times the floor": lambda case, each: _over(case, each, "floor"),
    "times the target": lambda case, each: _over(case, each, "target") if each.get("ours") else "",
}


def cases_table(
    cases: Sequence[Case], more: Sequence[str] = ("MiB", "rnnc is faster", "times the floor")
) -> Table:
    """A line per contender of each case, and one per contender that did not run.

    How many times as fast rnnc is holds for a forward, and for a forward and its backward; so does
    what a time is over the floor.

    Args:
        cases: records.
        more: keys of `_MORE`: further columns, where a case has figures for them.
    """
    lines = [(case, each) for case in cases for each in case["contenders"]]
    more = [name for name in more if any(_MORE[name](*line) for line in lines)]
    published = ["published, us per step"] * any(case.get("published") for case in cases)
    numbers = ["forward", "+ backward", "inference", *more, *published]
    title = "ms; + with its input product; * another function or size"
    table = plain_table(title, ["case", "contender"], numbers)
    for case in cases:
        name, known = case["name"], _published(case)
        if case.get("floor"):
            table.add_row(name, "floor", *(f"{each:.3g}" for each in case["floor"]))
            name = ""
        for each in case["contenders"]:
            cells = [_MORE[column](case, each) for column in more] + [known] * len(published)
            style = "cyan" if each["name"].startswith("rnnc") else ""
            table.add_row(name, escape(marked(each)), *_times(each), *cells, style=style)
            name = known = ""
            for phase, why in each["failures"].items():
                table.add_row("", escape(f"  {phase}: {why}"))
        for left, why in case["left_out"].items():
            table.add_row(name, escape(f"{left}: {why}"))
            name = ""
    return table


def marked(contender: Contender) -> str:
    """The name of a contender, the kind of its plan, and the marks that tables explain."""
    runs_as = contender.get("runs_as") if contender["name"] == "rnnc auto" else None
    shown = f" ({runs_as})" if runs_as else ""
    return f"{called(contender)}{shown}{TERMS[contender['terms']]}{' *' * bool(contender['note'])}"


def per_step(contender: Contender, what: str) -> str:
    """Microseconds per step: of the forward, and of the backward alone."""
    return pair([*(contender.get(what) or {}).values()], ".2f", 1e-3)


def _times(contender: Contender) -> list[str]:
    times = [median_of(contender, phase) for phase in PHASES]
    return ["failed" if took is None else f"{took:.3g}" for took in times]


def _faster(case: Case, other: Contender) -> str:
    """Return by which factor rnnc is faster than a contender on its terms; "" for rnnc."""
    same = (c for c in case["contenders"] if c["terms"] == other["terms"] and not c["note"])
    ours = next((c for c in same if c["name"].startswith("rnnc")), None)
    if ours is None or ours is other:
        return ""
    pairs = [(median_of(other, phase), median_of(ours, phase)) for phase in PHASES[:2]]
    return " / ".join(_factor(theirs / own) for theirs, own in pairs if theirs and own)


def _factor(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _over(case: Case, contender: Contender, goal: str) -> str:
    """The times of a contender over some of its case, both phases."""
    if contender["terms"] != "wx ready":
        return ""
    times = [median_of(contender, phase) for phase in PHASES[:2]]
    goals = zip(times, case.get(goal) or (), strict=False)
    return pair([took / least for took, least in goals if took and least], ".3g")


def _published(case: Case) -> str:
    found = case.get("published")
    if not found:
        return ""
    return f"{found['by']} {pair(found['microseconds'], '.3g')} ({found['where']})"


def rows_table(rows: Sequence[Case]) -> Table:
    """A line per row: rnnc's plan, its GPU time, estimate and target, and the peers."""
    words = ["row, cell, heads x units, batch", "plan"]
    numbers = ["ms", "target, ms", "us per step", "by the model", "cuDNN float16, ms"]
    title = "ms: forward / forward + backward; us per step: forward / backward"
    table = plain_table(title, words, [*numbers, "FlashRNN, ms"])
    for row in rows:
        ours = best_of_ours(row)
        if ours is None:
            continue
        number = f"{row['number']}, " if row["number"] else ""
        table.add_row(
            f"{number}{row['cell']}, {row['heads']} x {row['head_dim']}, {row['batch']}",
            ours["runs_as"],
            both_times(ours),
            _pair(row["target"]),
            per_step(ours, "nanoseconds_a_step") or "-",
            per_step(ours, "planned_nanoseconds_a_step") or "-",
            cudnn_of(row),
            _pair(row["flashrnn"]),
        )
    return table


def best_of_ours(row: Case) -> Contender | None:
    """The contender `"auto"`; if it was not measured, rnnc's fastest."""
    ready = [c for c in row["contenders"] if c["variant"] and c["forward_backward"]]
    ready = [c for c in ready if c["dtype"] == ready[0]["dtype"]]
    auto = next((c for c in ready if c["variant"] == "auto"), None)
    return auto or min(ready, key=lambda c: median_of(c, "forward_backward") or 0, default=None)


def cudnn_of(row: Case) -> str:
    """The times of torch's module in float16."""
    half = [c for c in row["contenders"] if c["name"].startswith("nn.") and c["dtype"] == "float16"]
    return both_times(half[0]) if half and half[0]["forward_backward"] else "-"


def both_times(contender: Contender | None) -> str:
    """Milliseconds of a forward, and of a forward with its backward."""
    if contender is None:
        return "-"
    one_head = contender["note"].startswith("one head")
    return " / ".join(_times(contender)[:2]) + (" (one head)" if one_head else "")


def _pair(times: Sequence[float] | None) -> str:
    return pair(times or (), "g") or "-"


def checks_table(checks: Sequence[Check]) -> Table:
    """The errors of each contender that computes what rnnc does."""
    words, numbers = ["cell, dtype", "contender"], ["h", "h, first eighth", "h, last eighth"]
    table = plain_table("relative error against float64", words, numbers)
    table.add_column("largest of the gradients")
    for check in checks:
        names = [f"{check.cell}, {check.dtype}", check.name]
        if check.failure:
            table.add_row(*names, "", "", "", escape(check.failure))
            continue
        worst = max((e, name) for name, e in check.errors.items() if name.startswith("d_"))
        errors = check.errors["h"], check.over_time[0], check.over_time[-1]
        shown = [f"{each:.1e}" for each in errors]
        table.add_row(*names, *shown, f"{worst[0]:.1e} ({worst[1]})")
    return table


def notes(found: Comparison) -> str:
    """The notes below the table of a row: anchors, how contenders differ, and new processes."""
    row, lines = found.case.row, []
    pairs = {"target": row.target, "FlashRNN": row.flashrnn, "cuDNN float16": row.cudnn}
    known = [f"{name} {pair(times, 'g')}" for name, times in pairs.items() if times]
    if known:
        lines.append(f"  anchors: {', '.join(known)}" + (f" ({row.note})" if row.note else ""))
    for contender in (result.contender for result in found.results if result.contender.note):
        name = f"{contender.name}, {contender.dtype}"
        lines.append(f"  {name}: {contender.note}, so it is not a peer of the row")
    for name, seconds in found.first.items():
        shown = [f"{k.replace('_', ' ')} {_seconds(v)}" for k, v in seconds.items()]
        lines.append(f"  first result of {name}: {', '.join(shown)}")
    return "\n".join(lines)


def _seconds(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f} s"
