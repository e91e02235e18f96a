"""What narrows domains, and on whose behalf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .linear import Linear
from .polynomial import Polynomial
from .store import Store

# What looks at more variables than these waits for the others, since it wakes with each of them.
SHORT = 3
QUICK, SLOW, EXACT = range(3)


class Revises(Protocol):
    """Anything that narrows domains."""

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true once it holds for all values left."""


@dataclass(frozen=True, eq=False, slots=True)
class Propagator:
    """What narrows domains on behalf of one constraint.

    Attributes:
        acts: does the narrowing.
        scope: the variables it looks at and changes.
        owner: the place of its constraint; -1 where it holds by definition.
        bit: the bit of its constraint, 0 where it holds by definition.
        name: who narrows, in words.
        rank: the lower goes first, as long as it finds more; EXACT is the last.
        whole: what it stands for is all of the constraint, so that the exact one is to spare as
            soon as this one holds for all values left.
        settles: one pass finds everything that it ever will, until something else changes.
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
        """A propagator, with what follows from its parts."""
        bit = 1 << owner if owner >= 0 else 0
        settles = exact or (isinstance(acts, Linear) and acts.monotone)
        distinct = tuple(dict.fromkeys(scope))
        rank = EXACT if exact else QUICK if len(distinct) <= SHORT else SLOW
        return Propagator(acts, distinct, owner, bit, name, rank, whole, settles)


@dataclass(eq=False, slots=True)
class Definition:
    """What a hidden variable equals, whatever the constraints say.

    Attributes:
        polynomial: its value.
        owner: the place of the constraint that needs it; -1 for a product that several do.
        name: who narrows by it, in words.
    """

    polynomial: Polynomial
    owner: int
    name: str
