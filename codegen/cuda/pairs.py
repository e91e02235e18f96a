"""Which forward kernel goes with which backward kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..plan import Plan
from .kernel_plan import KernelPlan

# Kernels of two kinds or cuts in place of a like pair must save more than this part of a step:
# estimates are good to about 10 %.
LEAST_GAIN = 0.05


def like_pairs(forwards: Sequence[KernelPlan], backwards: Sequence[KernelPlan]) -> list[Plan]:
    """Plans of one kind and cut of the batch: the best pair, and each kernel with the best other.

    Args:
        forwards: the forward kernels of one kind, those of each cut with the cheapest first.
        backwards: the backward kernels, likewise.
    """
    found = []
    for cut in dict.fromkeys(kernel.cut for kernel in forwards):
        forward, *others = [kernel for kernel in forwards if kernel.cut == cut]
        like = [kernel for kernel in backwards if kernel.cut == cut]
        for kernel in (forward, *others):
            found += [Plan(kernel, like[0])] if like else []
        found += [Plan(forward, kernel) for kernel in like[1:]]
    return found


def cheapest(plans: Iterable[Plan], costs: Iterable[tuple[float, float]]) -> Plan:
    """The like pair that costs the least, or the best kernel of each direction where that gains.

    Args:
        plans: at least one; of those that cost the same the first is taken.
        costs: of each, forward and backward.
    """
    priced = list(zip(plans, costs, strict=True))
    best, cost = min(priced, key=lambda pair: sum(pair[1]))
    # A plan that is launched step by step has buffers and graphs of its own, and is not mixed.
    mixable = [(p, c) for p, c in priced if p.forward.steps_per_launch == "all"]
    if mixable:
        first, (forward, _) = min(mixable, key=lambda pair: pair[1][0])
        second, (_, backward) = min(mixable, key=lambda pair: pair[1][1])
        if forward + backward < (1 - LEAST_GAIN) * sum(cost):
            return Plan(first.forward, second.backward)
    return best
