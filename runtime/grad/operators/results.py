"""Results of the operators besides those of the call: what runs kept, without shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...call.call import Call


def beside_results(call: Call, runs: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return what runs kept without the memory of results; `runs_of` is the inverse."""
    *lower, last = runs
    own = last[call.sequences :] if _shares(call) else last
    return [tensor for run in (*lower, own) for tensor in run]


def runs_of(call: Call, results: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    """Return what each run kept, from the results of a call without the last states."""
    count, each = call.sequences, len(call.initial_values) + 1
    sequences, kept = results[:count], list(results[count:])
    if _shares(call):
        place, heads = len(kept) - (each - count), call.parts // call.runs * call.heads
        kept[place:place] = [state.view(*state.shape[:2], heads, call.dim) for state in sequences]
    return [kept[first : first + each] for first in range(0, len(kept), each)]


def _shares(call: Call) -> bool:
    """Return True if the states of the last run are the output: not of directions joined."""
    packed = call.ragged is not None and call.ragged.packed
    return call.runs == call.layers and not packed
