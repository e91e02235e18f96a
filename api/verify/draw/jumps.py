"""Draws expressions whose values or slopes jump, if wanted with operands apart from the jumps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from .tree import RELATIONS, Node, call, name, number

_KINKED = ("relu", "leaky_relu", "elu", "abs", "sign", "heaviside")
#: Functions whose slope jumps at two places, and how far from 0 they jump at the most.
_TWO_KINKS = {"hardtanh": 1, "relu6": 6, "hardsigmoid": 3, "hardswish": 3}
_WHOLE = ("floor", "ceil", "trunc", "round")


class Jumps(ABC):
    """The part of a grammar whose expressions jump.

    In a short dtype a comparison of two rounded numbers may go either way. Switches then keep the
    operands apart: they are small whole numbers, which every dtype holds exactly.

    Args:
        random: the source of all choices.
        switches: names whose values are -2, -1, 1 or 2.
        apart: whether operands are kept apart from where a value or a slope jumps.
    """

    leaves: list[str]

    def __init__(self, random: Random, switches: Sequence[str], apart: bool) -> None:
        self.random = random
        self.switches = list(switches)
        self.apart = apart

    @abstractmethod
    def expression(self, depth: int) -> Node:
        """Draw an expression of moderate values."""

    @abstractmethod
    def bounded(self, depth: int) -> Node:
        """Draw an expression between -1 and 1."""

    @abstractmethod
    def positive(self, depth: int) -> Node:
        """Draw an expression above 0.3 and not large."""

    @abstractmethod
    def literal(self) -> Node:
        """Draw a number of moderate size, whole or not."""

    @abstractmethod
    def decimal(self) -> float:
        """Draw a number of moderate size with digits after its point."""

    def _two_apart(self, depth: int) -> tuple[Node, Node]:
        """Two operands of a comparison."""
        if not self.apart:
            b = self.literal() if self.random.random() < 0.3 else self.expression(depth)
            return self.expression(depth), b
        switch = name(self.random.choice(self.switches))
        if self.random.random() < 0.4:
            return switch, number(self.random.choice([-1, 0, 1, 1.5]))
        a, b = self.bounded(depth), call("*", number(1.5), switch)
        return (b, a) if self.random.random() < 0.5 else (a, b)

    def _one_apart(self, depth: int) -> Node:
        """An operand that is not near zero."""
        if not self.apart:
            return self.expression(depth)
        switch = name(self.random.choice(self.switches))
        return call("+", self.bounded(depth), call("*", number(1.5), switch))

    def _about_switch(self, depth: int) -> Node:
        """An operand within a quarter of a switch."""
        near = call("*", number(0.25), self.bounded(depth))
        return call("+", near, name(self.random.choice(self.switches)))

    def _between_whole(self, depth: int) -> Node:
        """An operand that is not near a whole number."""
        if not self.apart:
            return call("*", number(self.random.choice([1, 2, 3.7])), self.expression(depth))
        return call("+", self._about_switch(depth), number(0.5))

    def whole(self, depth: int) -> Node:
        """Draw a function that jumps at or between whole numbers."""
        function = self.random.choice(_WHOLE)
        if function == "round":  # it jumps between whole numbers
            inner = self._about_switch(depth) if self.apart else self._between_whole(depth)
        else:
            inner = self._between_whole(depth)
        # Its gradient is 0, so it has a share in a product.
        return call("*", call(function, inner), self.bounded(depth))

    def remainder(self, depth: int) -> Node:
        """Draw a remainder."""
        divisor = self.positive(depth)
        if self.random.random() < 0.5:
            divisor = number(self.random.choice([1, 2, 0.75, -1, -0.5]))
        top = self._between_whole(depth)
        # A multiple, whose quotient is not near a whole number.
        top = call("*", top, divisor) if self.apart else top
        return call(self.random.choice(["%", "remainder", "fmod"]), top, divisor)

    def two_kinks(self, depth: int) -> Node:
        """Draw a function whose slope jumps at two places."""
        function = self.random.choice([*_TWO_KINKS])
        factor = number(_TWO_KINKS[function] / 1.5)
        inner = self._about_switch(depth) if self.apart else self.expression(depth)
        return call(function, call("*", factor, inner))

    def condition(self, depth: int) -> Node:
        """Draw comparisons joined by and, or and not."""
        chance = self.random.random()
        if chance < 0.15:
            return call("&", self.condition(depth), self.condition(depth))
        if chance < 0.3:
            return call("|", self.condition(depth), self.condition(depth))
        if chance < 0.4:
            return call("~", self.condition(depth))
        return call(self.random.choice(RELATIONS), *self._two_apart(depth))

    def kinked(self, depth: int) -> Node:
        """Draw a function whose slope or value jumps at 0."""
        function = self.random.choice(_KINKED)
        inner = self._one_apart(depth)
        if function in ("leaky_relu", "elu") and self.random.random() < 0.7:
            slope = name(self.random.choice(self.leaves))
            slope = slope if self.random.random() < 0.3 else number(self.decimal())
            return call(function, inner, slope)
        return call(function, inner)

    def extremum(self, depth: int) -> Node:
        """Draw a maximum or a minimum."""
        return call(self.random.choice(["maximum", "minimum"]), *self._two_apart(depth))

    def clip(self, depth: int) -> Node:
        """Draw a value that is held between two."""
        if self.apart:
            return call("clip", self._about_switch(depth), number(-1.5), number(1.5))
        if self.random.random() < 0.3:
            bound = self.positive(0)
            return call("clip", self.expression(depth), call("neg", bound), bound)
        return call("clip", self.expression(depth), number(-0.75), number(0.5))
