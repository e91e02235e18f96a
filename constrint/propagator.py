"""What narrows domains, and on whose behalf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .store import Store

# Sums over more variables than these go after the others: they change with each of them.
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
