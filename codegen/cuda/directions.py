"""Both directions of time of a layer on a GPU: one call of twice the heads, or a call each."""

from __future__ import annotations

from ..plan import Plan

# The time of one call of both, in that of a call of one direction: here two calls are as good.
_WORTH = 1.9


def joined(one: Plan, both: Plan) -> bool:
    """Whether one call of both directions is better than a call of each.

    Where a GPU holds the blocks of both, they take little more time than one. Both plans run all
    steps in one launch: where each step is a launch, R of both directions is read in every step,
    which takes as long in one call as in two.

    Args:
        one: the plan of a direction.
        both: the plan of twice its heads.
    """
    kernels = (one.forward, one.backward, both.forward, both.backward)
    if any(kernel.steps_per_launch != "all" for kernel in kernels):
        return False
    return sum(both.nanoseconds) < _WORTH * sum(one.nanoseconds)
