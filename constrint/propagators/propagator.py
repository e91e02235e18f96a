"""`Propagator`: an action that narrows domains, and the constraint that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .linear import Linear
from .polynomial import Polynomial
from .store import Store

# A propagator of more variables is slow, because each of them wakes it, so it runs later.
SHORT = 3
QUICK, SLOW, EXACT = range(3)


class Revises(Protocol):
    """An action that narrows domains."""

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""


class Propagator(NamedTuple):
    """An action that narrows domains for one constraint.

    Attributes:
        acts: the action.
        scope: the variables that it reads and changes.
        owner: the number of its constraint; -1 for a definition, which always holds.
        bit: the bit of its constraint; 0 for a definition.
        name: its constraint's name, for traces.
        rank: its queue; lower ranks run first, and EXACT runs last.
        whole: whether it covers its whole constraint. The exact propagator is not needed once this
            one holds for all values left.
        settles: whether one pass finds everything until another propagator changes a domain.
    """

    acts: Revises
    scope: Sequence[int]
    owner: int
    bit: int
    name: str
    rank: int
    whole: bool
    settles: bool

    @staticmethod
    def of(
        acts: Revises,
        scope: Iterable[int],
        owner: int,
        name: str,
        *,
        exact: bool = False,
        whole: bool = False,
    ) -> Propagator:
        """A propagator with its bit, rank and `settles`."""
        bit = 1 << owner if owner >= 0 else 0
        settles = exact or (isinstance(acts, Linear) and acts.monotone)
        distinct = tuple(dict.fromkeys(scope))
        rank = EXACT if exact else QUICK if len(distinct) <= SHORT else SLOW
        return Propagator(acts, distinct, owner, bit, name, rank, whole, settles)


@dataclass(eq=False, slots=True)
class Definition:
    """The definition of a hidden variable, which always holds.

    Attributes:
        polynomial: the variable's value.
        owner: the number of the constraint that uses it; -1 if several constraints do.
        name: its name, for traces.
    """

    polynomial: Polynomial
    owner: int
    name: str
