"""Variables of a model, and the wish to try one end of their domain first."""

from __future__ import annotations

from ..domain import Domain
from .expression import Expression


class Variable(Expression):
    """An integer variable of a model; made by `Model.int`.

    Attributes:
        name: its name.
        index: its place in the order of declaration.
        domain: the values it may take, in the order they are tried.
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
        """The wish that small values of this variable are tried first."""
        return Preference(self, largest=False)

    @property
    def largest(self) -> Preference:
        """The wish that large values of this variable are tried first."""
        return Preference(self, largest=True)

    def __str__(self) -> str:
        return self.name


class Preference:
    """Which end of a variable's domain is tried first; made by `x.largest` and `x.smallest`."""

    __slots__ = ("largest", "variable")

    def __init__(self, variable: Variable, *, largest: bool) -> None:
        self.variable = variable
        self.largest = largest

    def __repr__(self) -> str:
        return f"{self.variable}.{'largest' if self.largest else 'smallest'}"
