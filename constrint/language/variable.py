"""Variables of a model, and preferences for small or large values."""

from __future__ import annotations

from ..domain import Domain
from .expression import Expression


class Variable(Expression):
    """An integer variable of a model; made by `Model.int`.

    Attributes:
        name: its name.
        index: its number in the order of declaration.
        domain: the values that it may take, in the order in which they are tried.
    """

    __slots__ = ("domain", "index", "name", "owner")

    def __init__(self, name: str, index: int, domain: Domain, owner: object) -> None:
        self.name = name
        self.index = index
        self.domain = domain
        self.owner = owner
        self.low = domain.low
        self.high = domain.high

    @property
    def smallest(self) -> Preference:
        """The preference to try small values of this variable first."""
        return Preference(self, largest=False)

    @property
    def largest(self) -> Preference:
        """The preference to try large values of this variable first."""
        return Preference(self, largest=True)

    def __str__(self) -> str:
        return self.name


class Preference:
    """A preference for large or small values, made by `x.largest` and `x.smallest`."""

    __slots__ = ("largest", "variable")

    def __init__(self, variable: Variable, *, largest: bool) -> None:
        self.variable = variable
        self.largest = largest

    def __repr__(self) -> str:
        return f"{self.variable}.{'largest' if self.largest else 'smallest'}"
