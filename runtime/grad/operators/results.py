"""Results of the operators besides those of the call: what runs kept, without shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...call.stack import Stack


def beside_results(stack: Stack, runs: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return what runs kept without what the results hold; `runs_of` is the inverse.

    No two results of an operator share memory.
    """
    *lower, last = runs
    own = last[stack.sequences :] if _shares(stack) else last
    return [tensor for run in (*lower, own) for tensor in run]


def runs_of(stack: Stack, results: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    """Return what each run kept, from the results of a call without the last states."""
    count, each = stack.sequences, len(stack.initial_values) + 1
    sequences, kept = results[:count], list(results[count:])
    if _shares(stack):
        place, heads = len(kept) - (each - count), stack.parts // stack.runs * stack.heads
        kept[place:place] = [state.view(*state.shape[:2], heads, stack.dim) for state in sequences]
    return [kept[first : first + each] for first in range(0, len(kept), each)]


def _shares(stack: Stack) -> bool:
    """Return True if the states of the last run are the output: not of directions joined."""
    packed = stack.ragged is not None and stack.ragged.packed
    return stack.runs == stack.layers and not packed
