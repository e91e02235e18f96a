"""The tables of `rnnc bench --peers` and `--stages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..results import PHASES
from ..table import pair, plain_table
from .checks import Check


def peers_table(cases: Sequence[dict[str, Any]]) -> Table:
    """A line per contender of each case, and one per contender that did not run.

    How many times as fast rnnc is holds for a forward, and for a forward and its backward.
    """
    title = "ms; + with its input product; * another function or size"
    published = any("published" in case for case in cases)
    numbers = ["forward", "+ backward", "inference", "MiB", "rnnc is faster"]
    numbers += ["published, us per step"] * published
    table = plain_table(title, ["case", "contender"], numbers)
    for case in cases:
        name, known = case["name"], _published(case)
        for each in case["contenders"]:
            marks = " +" if each["terms"] == "with input GEMM" else ""
            marks += " *" if each["note"] else ""
            times = [each[phase] for phase in PHASES]
            shown = ["failed" if took is None else f"{took:.3g}" for took in times]
            shown.append("" if each["peak_mib"] is None else f"{each['peak_mib']:.0f}")
            shown.append(_faster(case, each))
            shown += [known] * published
            table.add_row(name, f"{each['name']}, {each['dtype']}{marks}", *shown)
            name = known = ""
            for phase, why in each["failures"].items():
                table.add_row("", escape(f"  {phase}: {why}"))
        for left, why in case["left_out"].items():
            table.add_row(name, escape(f"{left}: {why}"))
            name = ""
    return table


def _faster(case: dict[str, Any], other: dict[str, Any]) -> str:
    """Return by which factor rnnc is faster than a contender on its terms; "" for rnnc."""
    same = (c for c in case["contenders"] if c["terms"] == other["terms"] and not c["note"])
    ours = next((c for c in same if c["name"].startswith("rnnc")), None)
    if ours is None or ours is other:
        return ""
    pairs = [(other[phase], ours[phase]) for phase in PHASES[:2]]
    return pair([theirs / own for theirs, own in pairs if theirs and own], ".3g")


def _published(case: dict[str, Any]) -> str:
    found = case.get("published")
    if found is None:
        return ""
    return f"{found['by']} {pair(found['microseconds'], '.3g')} ({found['where']})"


def checks_table(checks: Sequence[Check]) -> Table:
    """The errors of each contender that computes what rnnc does."""
    table = plain_table("relative error against float64", ["cell", "contender"], ["h"])
    table.add_column("the largest of the gradients")
    for check in checks:
        words = [check.cell, f"{check.name}, {check.dtype}"]
        if check.failure:
            table.add_row(*words, "", escape(check.failure))
            continue
        worst = max((e, name) for name, e in check.errors.items() if name.startswith("d_"))
        table.add_row(*words, f"{check.errors['h']:.1e}", f"{worst[0]:.1e} ({worst[1]})")
    return table
