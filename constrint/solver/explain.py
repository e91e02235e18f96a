"""Why nothing fits: a set of constraints that clash, none of them to spare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import LimitReached
from ..language.constraint import variables
from ..language.expression import Variable
from ..solution import Solution
from .budget import Budget
from .network import Named, Network
from .search import Search


@dataclass(frozen=True)
class Explanation:
    """Why a model, or one value of a variable, has no solution; or that it has one.

    Attributes:
        subject: what was asked about.
        satisfiable: whether there is a solution after all.
        core: names of constraints that clash, in declared order.
        clauses: the same constraints in words, one each.
        domains: the declared values of the variables in them.
        minimal: whether a solution appears as soon as any one of the core is dropped; false only
            if a limit ended the work, and then the core clashes all the same.
    """

    subject: str
    satisfiable: bool
    core: tuple[str, ...] = ()
    clauses: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    minimal: bool = True

    def __str__(self) -> str:
        if self.satisfiable:
            return self.subject
        if not self.core:
            return f"{self.subject}\n  with {', '.join(self.domains)}"
        if len(self.core) == 1:
            together = "this constraint cannot hold"
        else:
            together = f"these {len(self.core)} constraints clash"
            together += "; drop any one and a solution exists" if self.minimal else ""
        lines = [f"{self.subject}: {together}", *(f"  - {clause}" for clause in self.clauses)]
        if self.domains:
            lines.append(f"  with {', '.join(self.domains)}")
        if not self.minimal:
            lines.append("  (a limit ended the search for a smaller set)")
        return "\n".join(lines)


def some_solution(
    declared: Sequence[Variable], named: Sequence[Named], budget: Budget
) -> list[int] | None:
    """Some solution of these constraints, not the first; None if there is none."""
    return refute(declared, named, budget)[0]


def refute(
    declared: Sequence[Variable], named: Sequence[Named], budget: Budget
) -> tuple[list[int] | None, int]:
    """Some solution, or None with the bits of constraints that suffice to rule all out."""
    search = Search(Network(declared, named), None, budget)
    for solution in search.run():
        return solution, 0
    return None, search.core


def clash(
    declared: Sequence[Variable],
    named: Sequence[Named],
    core: int,
    budget: Budget,
    keep: int = 0,
) -> tuple[list[Named], bool]:
    """An irreducible clashing set inside an unsatisfiable one.

    Each constraint is dropped in turn; where the rest still clashes, it goes on with those that
    the refutation used, which is usually far fewer (deletion with refinement, as in Belov and
    Marques-Silva, "Accelerating MUS extraction with recursive model rotation", 2011).

    Args:
        declared: the variables.
        named: the constraints.
        core: bits of those that a refutation used.
        budget: the limits; when they are reached, what is left is returned as it is.
        keep: how many at the end of `named` are always kept.

    Returns:
        The constraints of the set, in order, and whether it is irreducible.
    """
    fixed = list(named[len(named) - keep :])
    rest = [item for i, item in enumerate(named[: len(named) - keep]) if core >> i & 1]
    needed: list[Named] = []
    try:
        # The latest constraints go first: the earlier ones tend to be the definitions.
        while rest:
            trial = needed + rest[:-1] + fixed
            solution, used = refute(declared, trial, budget)
            if solution is not None:
                needed.append(rest.pop())
            else:
                rest = [c for i, c in enumerate(rest[:-1], len(needed)) if used >> i & 1]
    except LimitReached:
        kept = {id(item) for item in needed + rest}
        return [item for item in named if id(item) in kept], False
    kept = {id(item) for item in needed}
    return [item for item in named if id(item) in kept], True


def explanation(
    subject: str, declared: Sequence[Variable], core: Sequence[Named], minimal: bool
) -> Explanation:
    """The core, in words."""
    seen = dict.fromkeys(v for item in core for v in variables(item.constraint))
    clauses = []
    for item in core:
        text = str(item.constraint)
        clauses.append(text if text == item.name else f"{item.name}: {text}")
    return Explanation(
        subject=subject,
        satisfiable=False,
        core=tuple(item.name for item in core),
        clauses=tuple(clauses),
        domains=tuple(f"{v} in {v.domain}" for v in declared if v in seen),
        minimal=minimal,
    )


def explained(
    subject: str,
    declared: Sequence[Variable],
    named: Sequence[Named],
    assumed: Named | None,
    budget: Budget,
) -> Explanation:
    """Why these constraints, and what is assumed on top, have no solution; or that they have."""
    everything = named if assumed is None else [*named, assumed]
    solution, core = refute(declared, everything, budget)
    if solution is not None:
        example = Solution({v.name: x for v, x in zip(declared, solution, strict=True)})
        claim = "there is a solution" if assumed is None else subject.replace("cannot", "can", 1)
        return Explanation(f"{claim}, for example {example}", True)
    found, minimal = clash(declared, everything, core, budget, keep=0 if assumed is None else 1)
    return explanation(subject, declared, found, minimal)
