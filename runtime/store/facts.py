"""What a call needs to know of a derived cell: names and flags, and no expression."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.derive import derive
from ...codegen.layout import states_read_before
from .memo import remembered


class Facts(NamedTuple):
    """Of a derived cell.

    Attributes:
        saved: what the forward keeps of a step where it keeps gates, by name.
        saved_gates: what the backward computes again where only states were kept.
        reads: for each state, whether the backward reads its values before or after a step.
    """

    saved: tuple[str, ...]
    saved_gates: tuple[str, ...]
    reads: tuple[bool, ...]


@lru_cache(maxsize=512)
def facts_of(cell: CellSpec) -> Facts:
    """The facts of a cell; from the cache folder nothing is derived for them.

    Args:
        cell: the cell.
    """

    def make() -> list[list[str | bool]]:
        derived = derive(cell)
        again = derive(cell, activations=False)
        return [list(derived.saved), list(again.saved), list(states_read_before(derived))]

    return Facts(*map(tuple, remembered(cell.name, f"facts {cell.fingerprint}", make)))
