"""Why nothing fits: a set of constraints that clash, none of them to spare."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.constraint import variables
from ..language.variable import Variable
from .budget import Budget
from .explanation import Explanation
from .network import Named, Network
from .outcome import LimitReached
from .search import Search
from .solution import Solution


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
