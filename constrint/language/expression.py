"""Expressions over integer variables, built with Python's operators."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, NoReturn

from .. import integers
from ..errors import ModelError

if TYPE_CHECKING:
    from .constraint import Comparison, Member

# Powers are exact, so a larger exponent, which can only be a mistake, is refused.
LARGEST_EXPONENT = 1024

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2, "**": 4}
_NEGATION = 3


class Expression:
    """An integer expression over variables.

    Attributes:
        low: a lower bound over the declared domains.
        high: an upper bound over the declared domains.
    """

    __slots__ = ("high", "low")
    __hash__ = object.__hash__

    low: int
    high: int

    def __add__(self, other: Expression | int) -> Expression:
        return Binary("+", self, lift(other, self, "+"))

    def __radd__(self, other: int) -> Expression:
        # `sum(...)` starts at 0, which messages need not show.
        return self if other == 0 else Binary("+", lift(other, self, "+", swapped=True), self)

    def __sub__(self, other: Expression | int) -> Expression:
        return Binary("-", self, lift(other, self, "-"))

    def __rsub__(self, other: int) -> Expression:
        return Binary("-", lift(other, self, "-", swapped=True), self)

    def __mul__(self, other: Expression | int) -> Expression:
        return Binary("*", self, lift(other, self, "*"))

    def __rmul__(self, other: int) -> Expression:
        return Binary("*", lift(other, self, "*", swapped=True), self)

    def __floordiv__(self, other: Expression | int) -> Expression:
        return Binary("//", self, lift(other, self, "//"))

    def __rfloordiv__(self, other: int) -> Expression:
        return Binary("//", lift(other, self, "//", swapped=True), self)

    def __mod__(self, other: Expression | int) -> Expression:
        return Binary("%", self, lift(other, self, "%"))

    def __rmod__(self, other: int) -> Expression:
        return Binary("%", lift(other, self, "%", swapped=True), self)

    def __pow__(self, other: Expression | int) -> Expression:
        return Binary("**", self, lift(other, self, "**"))

    def __rpow__(self, other: int) -> Expression:
        return Binary("**", lift(other, self, "**", swapped=True), self)

    def __neg__(self) -> Expression:
        return Negation(self)

    def __truediv__(self, other: object) -> NoReturn:
        raise _no_true_division(f"{self} / {other}", f"{self} // {other}")

    def __rtruediv__(self, other: object) -> NoReturn:
        raise _no_true_division(f"{other} / {self}", f"{other} // {self}")

    def __eq__(self, other: Expression | int) -> Comparison:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: Expression | int) -> Comparison:  # type: ignore[override]
        return _compare("!=", self, other)

    def __le__(self, other: Expression | int) -> Comparison:
        return _compare("<=", self, other)

    def __lt__(self, other: Expression | int) -> Comparison:
        return _compare("<", self, other)

    def __ge__(self, other: Expression | int) -> Comparison:
        return _compare(">=", self, other)

    def __gt__(self, other: Expression | int) -> Comparison:
        return _compare(">", self, other)

    def isin(self, values: Iterable[int]) -> Member:
        """The constraint that this expression is among some values.

        Args:
            values: integers.

        Raises:
            ModelError: a value is not an integer, or there are no values.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a = m.int("a", 1, 9)
            >>> print((2 * a).isin([8, 16, 32]))
            2 * a in [8, 16, 32]
        """
        from .constraint import Member

        return Member(self, values)

    def __bool__(self) -> NoReturn:
        raise ModelError(
            where=f"`{self}` used as true or false",
            found="an expression over variables, which has no value before the model is solved",
            wanted="a comparison handed to require",
            write=f"m.require({self} != 0)",
        )

    def __repr__(self) -> str:
        return str(self)


class Constant(Expression):
    """A number in an expression."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = self.low = self.high = value

    def __str__(self) -> str:
        return str(self.value)


class Negation(Expression):
    """Minus an expression."""

    __slots__ = ("operand",)

    def __init__(self, operand: Expression) -> None:
        self.operand = operand
        self.low, self.high = -operand.high, -operand.low

    def __str__(self) -> str:
        return f"-{bracketed(self.operand, _NEGATION)}"


class Binary(Expression):
    """Two expressions joined by one of + - * // % **."""

    __slots__ = ("left", "operator", "right")

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        self.operator = operator
        self.left = left
        self.right = right
        a, b = (left.low, left.high), (right.low, right.high)
        match operator:
            case "+":
                self.low, self.high = a[0] + b[0], a[1] + b[1]
            case "-":
                self.low, self.high = a[0] - b[1], a[1] - b[0]
            case "*":
                self.low, self.high = integers.product(a, b)
            case "**":
                self._refuse_odd_exponents()
                self.low, self.high = integers.power(a, b)
            case _:
                self._refuse_zero_divisors()
                bounds = integers.quotient if operator == "//" else integers.remainder
                self.low, self.high = bounds(a, b)

    def _refuse_zero_divisors(self) -> None:
        low, high = self.right.low, self.right.high
        if not low <= 0 <= high:
            return
        divisor = bracketed(self.right, PRECEDENCE["**"])
        raise ModelError(
            where=f"`{self}`",
            found="0 as a divisor"
            if low == high
            else f"a divisor, {divisor}, that may be 0 (its bounds are {low}..{high})",
            wanted="a divisor whose bounds leave out 0",
            write="domains that start at 1, or another divisor",
        )

    def _refuse_odd_exponents(self) -> None:
        low, high = self.right.low, self.right.high
        if low >= 0 and high <= LARGEST_EXPONENT:
            return
        raise ModelError(
            where=f"`{self}`",
            found=f"an exponent in {low}..{high}",
            wanted=f"an exponent in 0..{LARGEST_EXPONENT}",
            write="a domain for the exponent within these bounds",
        )

    def __str__(self) -> str:
        # All operators but ** group from the left, so a right operand of equal rank needs brackets.
        mine = PRECEDENCE[self.operator]
        raised = self.operator == "**"
        left = bracketed(self.left, mine + 1 if raised else mine)
        right = bracketed(self.right, mine if raised else mine + 1)
        return f"{left} {self.operator} {right}"


def bracketed(expression: Expression, at_least: int) -> str:
    """The expression's text, in brackets if its precedence is below `at_least`."""
    rank = 5
    if isinstance(expression, Binary):
        rank = PRECEDENCE[expression.operator]
    elif isinstance(expression, Negation) or (
        isinstance(expression, Constant) and expression.value < 0
    ):
        rank = _NEGATION
    return str(expression) if rank >= at_least else f"({expression})"


def integer(value: object, where: str) -> int:
    """The value as an int; any value that is not an integer, also a boolean, is refused."""
    if not isinstance(value, bool):
        try:
            return index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    write = str(int(value)) if isinstance(value, (bool, float)) and value == value // 1 else None
    raise ModelError(
        where=where,
        found=f"{value!r}, a {type(value).__name__}",
        wanted="an integer",
        write=write or "an int; scale both sides so that no fraction is left",
    )


def lift(
    value: Expression | int, other: Expression, operator: str, *, swapped: bool = False
) -> Expression:
    """An operand as an expression; `other` is the other one, on the right side if `swapped`."""
    if isinstance(value, Expression):
        return value
    if type(value) is int:
        return Constant(value)
    # Only here: the text of a long expression takes longer than all else.
    where = f"... {operator} {other}" if swapped else f"{other} {operator} ..."
    return Constant(integer(value, f"`{where}`"))


def _compare(operator: str, left: Expression, right: Expression | int) -> Comparison:
    from .constraint import Comparison

    return Comparison(operator, left, lift(right, left, operator))


def _no_true_division(found: str, write: str) -> ModelError:
    return ModelError(
        where=f"`{found}`",
        found="/, which makes a fraction",
        wanted="integers only",
        write=f"{write}, or multiply the other side",
    )
