"""Search for a smallest set of constraints that clash."""

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
    """Any solution of these constraints, not always the first; None if there is none."""
    return refute(declared, named, budget)[0]


def refute(
    declared: Sequence[Variable], named: Sequence[Named], budget: Budget
) -> tuple[list[int] | None, int]:
    """Any solution, or None with the bits of constraints that rule out all values."""
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
    """A minimal clashing subset of an unsatisfiable set of constraints.

    Each constraint is dropped in turn. If the rest still clashes, the search continues with the
    constraints that the refutation used, usually far fewer (deletion with refinement, as in Belov
    and Marques-Silva, "Accelerating MUS extraction with recursive model rotation", 2011).

    Args:
        declared: the variables.
        named: the constraints.
        core: the bits of the constraints that a refutation used.
        budget: the limits; when one is reached, the constraints left are returned.
        keep: how many constraints at the end of `named` are always kept.

    Returns:
        The constraints of the subset, in order, and whether it is minimal.
    """
    fixed = list(named[len(named) - keep :])
    rest = [item for i, item in enumerate(named[: len(named) - keep]) if core >> i & 1]
    needed: list[Named] = []
    try:
        # Later constraints are dropped first, because earlier ones are often definitions.
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
    """The explanation of a clashing set."""
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
    """Why these constraints and an assumption have no solution, or a solution of them."""
    everything = named if assumed is None else [*named, assumed]
    solution, core = refute(declared, everything, budget)
    if solution is not None:
        example = Solution({v.name: x for v, x in zip(declared, solution, strict=True)})
        claim = "there is a solution" if assumed is None else subject.replace("cannot", "can", 1)
        return Explanation(f"{claim}, for example {example}", True)
    found, minimal = clash(declared, everything, core, budget, keep=0 if assumed is None else 1)
    return explanation(subject, declared, found, minimal)
