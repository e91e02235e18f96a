"""Draws random expressions whose values and slopes stay moderate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from .jumps import Jumps
from .tree import Node, call, name, number

_UNARY = (
    "sigmoid",
    "tanh",
    "gelu",
    "silu",
    "softplus",
    "logsigmoid",
    "sin",
    "cos",
    "erf",
    "square",
    "atan",
    "asinh",
    "softsign",
    "mish",
    "exp2",
    "expm1",
    "sinh",
    "cosh",
    "tan",
)
#: Of them, those that take a bounded expression.
_STEEP = ("square", "exp2", "expm1", "sinh", "cosh", "tan")
_POSITIVE = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "log1p", "log2")


class Grammar(Jumps):
    """Draws expressions over given names.

    Args:
        random: the source of all choices.
        leaves: the names to draw from; it may grow.
        switches: names whose values are -2, -1, 1 or 2.
        apart: whether the operands of comparisons are kept apart.
        half: whether numbers must stay in the range of float16.
    """

    def __init__(
        self,
        random: Random,
        leaves: Sequence[str],
        switches: Sequence[str],
        apart: bool,
        half: bool,
    ) -> None:
        super().__init__(random, switches, apart)
        self.leaves = list(leaves)
        self.half = half

    def expression(self, depth: int) -> Node:
        """An expression of moderate values."""
        chance = self.random.random()
        if depth <= 0 or chance < 0.1:
            return self.leaf()
        make: list[tuple[int, Callable[[int], Node]]] = [
            (16, self._sum),
            (12, self._product),
            (6, self._quotient),
            (4, self._negative),
            (6, self._power),
            (20, self._unary),
            (8, self._of_positive),
            (9, self.kinked),
            (6, self.extremum),
            (4, self.clip),
            (8, self._where),
            (4, self._stop),
            (6, self._clip_gradient),
            (6, self._with_gradient),
            (4, self._scaled),
            (4, self.two_kinks),
            (5, self.whole),
            (4, self.remainder),
            (5, self._of_two),
        ]
        drawn = self.random.choices([m for _, m in make], [w for w, _ in make])[0]
        return drawn(depth - 1)

    def leaf(self) -> Node:
        """A name, sometimes combined with a literal."""
        if self.random.random() < 0.12:
            return self._sum(0) if self.random.random() < 0.5 else self._product(0)
        return name(self.random.choice(self.leaves))

    def literal(self) -> Node:
        """A number of moderate size, whole or not."""
        whole = self.random.random() < 0.3
        value = self.random.choice([-3, -2, -1, 1, 2, 3]) if whole else self.decimal()
        return number(value)

    def decimal(self) -> float:
        """A number of moderate size with digits after its point."""
        return round(self.random.uniform(-2, 2), self.random.choice([1, 3, 15])) or 0.5

    def bounded(self, depth: int) -> Node:
        """An expression between -1 and 1."""
        function = self.random.choice(["tanh", "sigmoid", "sin", "cos", "erf", "tanh"])
        return call(function, self.expression(depth))

    def positive(self, depth: int) -> Node:
        """An expression above 0.3 and not large."""
        inner = self.bounded(depth)
        return self.random.choice(
            [
                call("+", inner, number(1.5)),
                call("+", call("square", inner), number(0.5)),
                call("exp", inner),
                call("-", number(2), inner),
            ]
        )

    def _sum(self, depth: int) -> Node:
        a = self.expression(depth)
        b = self.literal() if self.random.random() < 0.2 else self.expression(depth)
        a, b = (b, a) if self.random.random() < 0.5 else (a, b)
        return call(self.random.choice("+-"), a, b)

    def _product(self, depth: int) -> Node:
        if self.random.random() < 0.3:
            a, b = self.literal(), self.expression(depth)
        else:
            a, b = self.bounded(depth), self.expression(depth)
        a, b = (b, a) if self.random.random() < 0.5 else (a, b)
        return call("*", a, b)

    def _quotient(self, depth: int) -> Node:
        if self.random.random() < 0.3:
            return call("/", self.expression(depth), self._apart_from_zero())
        top = self.literal() if self.random.random() < 0.2 else self.expression(depth)
        return call("/", top, self.positive(depth))

    def _apart_from_zero(self) -> Node:
        value = self.literal().value
        return number(value if abs(value) > 0.2 else 0.75)

    def _negative(self, depth: int) -> Node:
        return call("neg", self.expression(depth))

    def _power(self, depth: int) -> Node:
        if self.random.random() < 0.4:
            exponent = self.random.choice([-1, -2, -3])
            return Node("**", (self.positive(depth),), value=exponent)
        exponent = self.random.choice([1, 2, 2, 3, 3, 4, 5])
        return Node("**", (self.bounded(depth),), value=exponent)

    def _unary(self, depth: int) -> Node:
        function = self.random.choice(_UNARY)
        inner = self.bounded(depth) if function in _STEEP else self.expression(depth)
        return call(function, inner)

    def _of_positive(self, depth: int) -> Node:
        function = self.random.choice(_POSITIVE)
        inner = self.bounded(depth) if function == "exp" else self.positive(depth)
        return call(function, inner)

    def _of_two(self, depth: int) -> Node:
        """A power, an angle, or a value between two."""
        kind = self.random.choice(["pow", "pow", "number", "base", "atan2", "lerp"])
        if kind == "lerp":
            share = self.bounded(depth) if self.random.random() < 0.7 else number(0.3)
            return call("lerp", self.expression(depth), self.expression(depth), share)
        if kind == "atan2":
            pair = [self.expression(depth), self.positive(depth)]
            return call("atan2", *(pair if self.random.random() < 0.5 else pair[::-1]))
        if kind == "number":
            exponent = number(self.random.choice([0.3, 1.7, -0.5, 0.5, -2.5]))
            return call("pow", self.positive(depth), exponent)
        base = self.positive(depth) if kind == "pow" else number(self.random.choice([2, 0.6, 1.5]))
        return call("pow", base, self.bounded(depth))

    def _scaled(self, depth: int) -> Node:
        """An expression with a large or a small literal, and a second one that undoes it."""
        large = [60.0, 1000] if self.half else [1e5, 123456789012, 2**70, 3.5e20]
        scale = self.random.choice(large)
        a = self.bounded(depth)
        if self.random.random() < 0.5:
            return call("/", call("*", number(scale), a), number(scale * 2))
        small = number(1e-3 if self.half else self.random.choice([1e-5, 1e-12, 7e-21]))
        return call("+", a, call("*", small, self.expression(depth)))

    def _where(self, depth: int) -> Node:
        a = self.literal() if self.random.random() < 0.15 else self.expression(depth)
        return call("where", self.condition(depth - 1), a, self.expression(depth))

    def _stop(self, depth: int) -> Node:
        return call("stop_gradient", self.expression(depth))

    def _clip_gradient(self, depth: int) -> Node:
        bound = number(self.random.choice([0.01, 0.1, 0.3, 1.0]))
        if self.random.random() < 0.2:
            bound = self.positive(0)
        return call("clip_gradient", self.expression(depth), bound)

    def _with_gradient(self, depth: int) -> Node:
        if self.random.random() < 0.5:
            spike = call("where", self.condition(depth - 1), number(1), number(0))
            return call("with_gradient", spike, self.expression(depth))
        return call("with_gradient", self.expression(depth), self.expression(depth))
