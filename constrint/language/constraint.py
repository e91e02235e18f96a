"""Constraints: comparisons of expressions, joined by and, or, not and implication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from ..errors import ModelError
from .expression import Binary, Constant, Expression, Negation, integer
from .variable import Variable

_OPPOSITE = {"==": "!=", "!=": "==", "<=": ">", ">": "<=", "<": ">=", ">=": "<"}

_MEMBER_RANK = 3


class Constraint:
    """A constraint: true or false for each choice of the variables."""

    __slots__ = ()

    rank = _MEMBER_RANK

    def __and__(self, other: Constraint | bool) -> Constraint:
        return Both(self, as_constraint(other, f"({self}) & ..."))

    def __rand__(self, other: bool) -> Constraint:
        return Both(as_constraint(other, f"... & ({self})"), self)

    def __or__(self, other: Constraint | bool) -> Constraint:
        return Either(self, as_constraint(other, f"({self}) | ..."))

    def __ror__(self, other: bool) -> Constraint:
        return Either(as_constraint(other, f"... | ({self})"), self)

    def __invert__(self) -> Constraint:
        raise NotImplementedError

    def implies(self, then: Constraint | bool) -> Constraint:
        """The constraint that `then` holds if this one does.

        Raises:
            ModelError: `then` is not a constraint.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 9), m.int("b", 1, 9)
            >>> print((a > 4).implies(b % 2 == 0))
            a > 4 -> b % 2 == 0
        """
        return Implication(self, as_constraint(then, f"({self}).implies(...)"))

    def __bool__(self) -> NoReturn:
        raise ModelError(
            where=f"`{self}` used as true or false",
            found="a comparison over variables in an `if`, `and`, `or`, `not`, `in` or a chain "
            "such as `1 <= a <= 5`",
            wanted="a constraint handed to require, joined by &, | and ~",
            write=f"m.require({self}); for a chain, m.require((1 <= a) & (a <= 5))",
        )

    def __repr__(self) -> str:
        return str(self)


class Truth(Constraint):
    """A constraint without variables: true or false."""

    __slots__ = ("holds",)

    def __init__(self, holds: bool) -> None:
        self.holds = holds

    def __invert__(self) -> Constraint:
        return Truth(not self.holds)

    def __str__(self) -> str:
        return "true" if self.holds else "false"


class Comparison(Constraint):
    """A comparison of two expressions by == != <= < >= or >."""

    __slots__ = ("left", "operator", "right")

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        self.operator = operator
        self.left = left
        self.right = right

    def __invert__(self) -> Constraint:
        return Comparison(_OPPOSITE[self.operator], self.left, self.right)

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


class Member(Constraint):
    """The constraint that an expression is among some values, or is not.

    Raises:
        ModelError: a value is not an integer, or there are no values.
    """

    __slots__ = ("expression", "inside", "values")

    def __init__(self, expression: Expression, values: Iterable[int], inside: bool = True) -> None:
        where = f"`{expression} in ...`"
        self.expression = expression
        self.values = tuple(sorted({integer(value, where) for value in values}))
        self.inside = inside
        if not self.values:
            raise ModelError(where, "no values", "at least one", f"({expression}).isin([8, 16])")

    def __invert__(self) -> Constraint:
        return Member(self.expression, self.values, not self.inside)

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.values))
        return f"{self.expression} {'in' if self.inside else 'not in'} [{listed}]"


class _Pair(Constraint):
    __slots__ = ("left", "right")

    word: str

    def __init__(self, left: Constraint, right: Constraint) -> None:
        self.left = left
        self.right = right

    def __str__(self) -> str:
        # `and` and `or` group from the left, `->` from the right.
        rightwards = self.word == "->"
        return (
            f"{_bracketed(self.left, self.rank + rightwards)} {self.word} "
            f"{_bracketed(self.right, self.rank + (not rightwards))}"
        )


class Both(_Pair):
    """Two constraints that both hold."""

    __slots__ = ()
    word = "and"
    rank = 2

    def __invert__(self) -> Constraint:
        return Either(~self.left, ~self.right)


class Either(_Pair):
    """Two constraints of which at least one holds."""

    __slots__ = ()
    word = "or"
    rank = 1

    def __invert__(self) -> Constraint:
        return Both(~self.left, ~self.right)


class Implication(_Pair):
    """Two constraints of which the second holds if the first does."""

    __slots__ = ()
    word = "->"
    rank = 0

    def __invert__(self) -> Constraint:
        return Both(self.left, ~self.right)


def _bracketed(constraint: Constraint, at_least: int) -> str:
    return str(constraint) if constraint.rank >= at_least else f"({constraint})"


def as_constraint(value: Constraint | bool, where: str) -> Constraint:
    """The value as a constraint; a comparison of plain numbers is True or False."""
    if isinstance(value, Constraint):
        return value
    if isinstance(value, bool):
        return Truth(value)
    raise ModelError(
        where=f"`{where}`",
        found=f"{value!r}, a {type(value).__name__}",
        wanted="a constraint, which a comparison makes",
        write=f"{value} != 0" if isinstance(value, Expression) else "a <= b, or a % b == 0",
    )


def variables(node: Constraint | Expression) -> Iterator[Variable]:
    """The variables of a constraint or an expression, with repetitions, from left to right."""
    left: list[Any] = [node]
    while left:
        node = left.pop()
        if isinstance(node, Variable):
            yield node
        elif isinstance(node, _PAIRS):
            left += (node.right, node.left)
        elif isinstance(node, Negation):
            left.append(node.operand)
        elif isinstance(node, Member):
            left.append(node.expression)


_PAIRS = (Binary, Comparison, _Pair)


def function(node: Constraint | Expression) -> Callable[[Sequence[int]], int]:
    """The node as a Python function of the values of all variables in declared order.

    The evaluated text contains only operators, indices and names of numbers, and no name of the
    model.
    """
    numbers: list[object] = []
    text = python(node, numbers)
    return _made(text, len(numbers))(*numbers)


@lru_cache(maxsize=4096)
def _made(text: str, count: int) -> Callable[..., Callable[[Sequence[int]], int]]:
    """Makes a function from its numbers, in which most models of a kind differ."""
    numbers = ", ".join(f"c{i}" for i in range(count))
    out: Callable[..., Callable[[Sequence[int]], int]]
    out = eval(f"lambda {numbers}: lambda v: {text}", {"__builtins__": {}})
    return out


def python(node: Constraint | Expression, numbers: list[object] | None = None) -> str:
    """The node as a Python expression over a list `v` of values in declared order.

    Args:
        node: a constraint or an expression.
        numbers: receives the numbers of the node, which the text names `c0`, `c1` and so on; None
            writes them into the text.
    """

    def written(value: object) -> str:
        if numbers is None:
            return f"({value})"
        numbers.append(value)
        return f"c{len(numbers) - 1}"

    match node:
        case Variable(index=i):
            return f"v[{i}]"
        case Constant(value=value):
            return written(value)
        case Truth(holds=holds):
            return str(holds)
        case Negation(operand=operand):
            return f"(-{python(operand, numbers)})"
        case Binary(operator=word) | Comparison(operator=word):
            return f"({python(node.left, numbers)} {word} {python(node.right, numbers)})"
        case Member(expression=inner, values=values, inside=inside):
            word = "in" if inside else "not in"
            return f"({python(inner, numbers)} {word} {written(set(values))})"
        case Implication():
            return f"(not {python(node.left, numbers)} or {python(node.right, numbers)})"
        case Both() | Either():
            return f"({python(node.left, numbers)} {node.word} {python(node.right, numbers)})"
    raise AssertionError(f"no such node: {node!r}")  # pragma: no cover
