"""Values that the units of a head exchange between two stages of a step."""

from __future__ import annotations

from dataclasses import dataclass

# Names of what a statistic gives, those that pass a gradient first.
_WORDS = {
    "mean": ("mean",),
    "total": ("total",),
    "largest": ("largest", "ties"),
    "moments": ("mean", "variance"),
    "softmax": ("total", "largest"),
}
_WITH_GRADIENT = {"mean": 1, "total": 1, "largest": 1, "moments": 2, "softmax": 1}


@dataclass(frozen=True)
class Product:
    """The weights of a called gate times a value.

    Attributes:
        gate: which gets the product.
        argument: the name of the value.
        dense: whether the weights are a matrix; else a weight per unit.
    """

    gate: str
    argument: str
    dense: bool

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return (self.gate,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values that it reads."""
        return (self.argument,)

    @property
    def gives_back(self) -> tuple[str, ...]:
        """In a backward, the names of what it gives: there the gate's gradient is multiplied."""
        return (self.argument,)


@dataclass(frozen=True)
class Statistic:
    """Numbers of a head: they have the same value for all units.

    Attributes:
        kind: `"mean"` and `"total"` of one value; `"largest"` with the number of units that have
            it; `"moments"`, mean and variance of all values; `"softmax"`, the sum of exp(x - m)
            and the largest x, m.
        names: of the numbers.
        arguments: the names of the values.
        mark: of `"largest"`, the name of what the forward saves: 1 in units that have it, else 0.
    """

    kind: str
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    mark: str = ""

    @staticmethod
    def words(kind: str) -> tuple[str, ...]:
        """Return what the numbers of a kind are called.

        Args:
            kind: of a statistic.
        """
        return _WORDS[kind]

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return self.names

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values that it reads."""
        return self.arguments

    @property
    def gives_back(self) -> tuple[str, ...]:
        """In a backward, the names of what it gives."""
        return self.names

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The names of the numbers that gradients pass through."""
        return self.names[: _WITH_GRADIENT[self.kind]]


Exchanged = Product | Statistic
