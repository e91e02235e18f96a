"""Two cells side by side: the facts in which they differ."""

from __future__ import annotations

from typing import NamedTuple

from .contents import Report


class Fact(NamedTuple):
    """A fact of each of two cells.

    Attributes:
        name: what is compared.
        values: of the first and of the second cell.
    """

    name: str
    values: tuple[str, str]

    @property
    def differs(self) -> bool:
        """True if the two values differ."""
        return self.values[0] != self.values[1]


def facts_of(first: Report, second: Report) -> tuple[Fact, ...]:
    """The facts of two reports, those that differ first.

    Args:
        first: of one cell.
        second: of the other.
    """
    ours, theirs = _facts(first), _facts(second)
    facts = [Fact(name, (value, theirs.get(name, "none"))) for name, value in ours.items()]
    facts += [Fact(n, ("none", value)) for n, value in theirs.items() if n not in ours]
    return tuple(sorted(facts, key=lambda fact: not fact.differs))


def _facts(report: Report) -> dict[str, str]:
    cell, card = report.cell, report.card
    found = {
        "gates": " ".join(g.name for g in cell.gates) or "none",
        "states": " ".join(s.name for s in cell.states),
        "matrices": " ".join(f"{p.gate}←{p.source}" for p in cell.dense_pairs) or "none",
        "parameters": f"{card.sizes[0].total:,}",
        "saved for the backward": ", ".join(card.kept) or "none",
        "kept, bytes per step and unit": f"{card.kept_bytes}",
    }
    for work in card.work:
        found[f"operations, {work.direction}"] = f"{work.operations}"
    for kernel in report.kernels:
        found[f"plan, {kernel.direction}"] = kernel.kind
        found[f"ns per step, {kernel.direction}"] = f"{kernel.timeline.total:,}"
        found[f"binds, {kernel.direction}"] = kernel.binding or "nothing"
    if report.choice.error:
        found["plan"] = f"none: it wants {report.choice.error.wanted}"
    return found
