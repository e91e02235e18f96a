"""Both directions of time of a layer on a GPU: one call of twice the heads, or a call each."""

from __future__ import annotations

from ..plan import Plan

# The time of one call of both, in that of a call of one direction: here two calls are as good. Two
# calls of rows that end early share the GPU: the tiles of one take the places that those of the
# other left, and copies and products of one run beside the kernels of the other.
_WORTH, _WORTH_OF_SHORT_ROWS = 1.9, 1.2


def joined(one: Plan, both: Plan, fill: float = 1.0) -> bool:
    """Return True if one call of both directions is better than a call of each.

    Where a GPU holds the blocks of both, they take little more time than one. Both plans run all
    steps in one launch: where each step is a launch, R of both directions is read in every step,
    which takes as long in one call as in two.

    Args:
        one: the plan of a direction.
        both: the plan of twice its heads.
        fill: as in `Shape`.
    """
    kernels = (one.forward, one.backward, both.forward, both.backward)
    if any(kernel.steps_per_launch != "all" for kernel in kernels):
        return False
    worth = _WORTH if fill == 1 else _WORTH_OF_SHORT_ROWS
    return sum(both.nanoseconds) < worth * sum(one.nanoseconds)
