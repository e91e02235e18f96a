"""Tensors that a forward keeps for its backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..call.call import Call
from ..call.masks import MadeMasks


class Kept(NamedTuple):
    """Tensors that a forward keeps for its backward, beside the inputs and results of the call.

    Attributes:
        masks: of each dropout, unless the caller drew them.
        runs: of each call of a layer its states at all steps, and what its kernel saved. Of a
            single step alone what its kernels saved.
        made: the masks of lengths and resets.
    """

    masks: Sequence[Any]
    runs: Sequence[Sequence[Any]]
    made: MadeMasks | None

    def flat(self) -> list[Any]:
        """Return all in one list; `kept_from` is the inverse."""
        return [*self.masks, *(tensor for run in self.runs for tensor in run), *(self.made or ())]


def kept_from(call: Call, flat: Sequence[Any]) -> Kept:
    """Return what `Kept.flat` flattened."""
    if call.single:
        return Kept((), (flat,), None)
    made = None
    if call.ragged is not None:
        count = len(MadeMasks._fields)
        made, flat = MadeMasks(*flat[-count:]), flat[:-count]
    each = len(call.initial_values) + 1
    first = len(flat) - each * call.runs
    runs = [flat[place : place + each] for place in range(first, len(flat), each)]
    return Kept(flat[:first], runs, made)
