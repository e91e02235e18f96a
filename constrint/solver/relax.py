"""`relax`: how far one bound must move before there is a solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..language.constraint import Comparison, function
from ..language.expression import Binary, Constant, Expression
from ..language.variable import Variable
from .budget import Budget
from .explain import clash, explanation, refute, some_solution
from .explanation import Explanation
from .network import Named
from .outcome import LimitReached
from .solution import Solution


@dataclass(frozen=True)
class Move:
    """A move of a bound, and a solution after it.

    Attributes:
        by: how far the right side moves; negative is down.
        bound: the new right side if it is a number, else None.
        constraint: the moved constraint, as text.
        solution: a solution with the moved constraint.
    """

    by: int
    bound: int | None
    constraint: str
    solution: Solution

    def __str__(self) -> str:
        way = "up" if self.by > 0 else "down"
        return f"`{self.constraint}` ({way} by {abs(self.by)}), for example {self.solution}"


@dataclass(frozen=True)
class Relaxation:
    """The moves of one constraint's bound that give a solution.

    Attributes:
        name: the constraint's name.
        constraint: its text.
        satisfiable: whether there are solutions without a move.
        possible: whether there are solutions after a move, or without the constraint.
        moves: the shortest move; for an equation the shortest in each direction, sorted by
            length; empty if the constraint has no bound.
        solution: a solution without the constraint, if there is one.
        rest: why there is no solution even without the constraint, else None.
    """

    name: str
    constraint: str
    satisfiable: bool
    possible: bool
    moves: tuple[Move, ...] = ()
    solution: Solution | None = None
    rest: Explanation | None = None

    def __str__(self) -> str:
        title = (
            self.constraint if self.name == self.constraint else f"{self.name}: {self.constraint}"
        )
        if self.satisfiable:
            return f"{title}\n  need not move: {self.solution}"
        if not self.possible:
            return f"{title}\n  no move helps; without it, {self.rest}"
        if not self.moves:
            return f"{title}\n  has no bound to move; without it, {self.solution}"
        return "\n".join([title, *(f"  has a solution at {move}" for move in self.moves)])


def relax(
    declared: Sequence[Variable], named: Sequence[Named], target: Named, budget: Budget
) -> Relaxation:
    """See `Model.relax`."""
    text = str(target.constraint)

    def solution(values: list[int]) -> Solution:
        return Solution({v.name: x for v, x in zip(declared, values, strict=True)})

    present = some_solution(declared, named, budget)
    if present is not None:
        return Relaxation(target.name, text, True, True, (), solution(present))
    others = [item for item in named if item is not target]
    free, core = refute(declared, others, budget)
    if free is None:
        found, minimal = clash(declared, others, core, budget)
        why = explanation("nothing fits", declared, found, minimal)
        return Relaxation(target.name, text, False, False, rest=why)
    moves: list[Move] = []
    if isinstance(target.constraint, Comparison) and target.constraint.operator != "!=":
        comparison = target.constraint
        if isinstance(comparison.left, Constant):
            comparison = _turned(comparison)
        operator, left, right = comparison.operator, comparison.left, comparison.right
        for sign in (1, -1):
            # The left side is too large by `excess` if sign is 1, too small if it is -1.
            if operator in (("<=", "<", "==") if sign > 0 else (">=", ">", "==")):
                excess = left - right if sign > 0 else right - left
                try:
                    values = _smallest(declared, others, excess, budget)
                except LimitReached as limit:
                    limit.best = solution(free)
                    raise
                if values is not None:
                    strict = operator in ("<", ">")
                    by = sign * (function(excess)(values) + strict)
                    moves.append(_move(operator, left, right, by, solution(values)))
        moves.sort(key=lambda move: abs(move.by))
    return Relaxation(target.name, text, False, True, tuple(moves), solution(free))


def _turned(comparison: Comparison) -> Comparison:
    turned = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
    operator = turned.get(comparison.operator, comparison.operator)
    return Comparison(operator, comparison.right, comparison.left)


def _smallest(
    declared: Sequence[Variable], named: Sequence[Named], excess: Expression, budget: Budget
) -> list[int] | None:
    """A solution with the smallest non-negative excess, by bisection; None if there is none."""
    low = Named("", excess >= 0)
    best = some_solution(declared, [*named, low], budget)
    if best is None:
        return None
    least, most = 0, function(excess)(best)
    while least < most:
        middle = (least + most) // 2
        trial = some_solution(declared, [*named, low, Named("", excess <= middle)], budget)
        if trial is None:
            least = middle + 1
        else:
            best, most = trial, function(excess)(trial)
    return best


def _move(operator: str, left: Expression, right: Expression, by: int, at: Solution) -> Move:
    if isinstance(right, Constant):
        bound = right.value + by
        return Move(by, bound, str(Comparison(operator, left, Constant(bound))), at)
    moved = Binary("+" if by > 0 else "-", right, Constant(abs(by)))
    return Move(by, None, str(Comparison(operator, left, moved)), at)
