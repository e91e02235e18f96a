"""The choice of a forward and a backward kernel that go together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..plan import Plan
from .kernel_plan import KernelPlan

# A kernel of another kind or cut replaces one of a like pair only if it saves more than this part
# of that kernel's step. Estimates are good to about 10 %.
LEAST_GAIN = 0.05


def like_pairs(forwards: Sequence[KernelPlan], backwards: Sequence[KernelPlan]) -> list[Plan]:
    """Plans of one kind and cut of the batch: each kernel with the cheapest of the other direction.

    Args:
        forwards: the forward kernels of one kind; within each cut, the cheapest comes first.
        backwards: the backward kernels in the same order.
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
    """The cheapest pair; in each direction another pair's kernel if it costs clearly less.

    Args:
        plans: at least one; of plans with the same cost the first is taken.
        costs: the costs of each plan, forward and backward.
    """
    priced = list(zip(plans, costs, strict=True))
    best, cost = min(priced, key=lambda pair: sum(pair[1]))
    # A plan that is launched step by step has its own buffers and graphs, so it is not mixed.
    mixable = [(p, c) for p, c in priced if p.forward.steps_per_launch == "all"]
    if not mixable:
        return best
    first, (forward, _) = min(mixable, key=lambda pair: pair[1][0])
    second, (_, backward) = min(mixable, key=lambda pair: pair[1][1])
    if best.forward.steps_per_launch != "all":
        gains = forward + backward < (1 - LEAST_GAIN) * sum(cost)
        return Plan(first.forward, second.backward) if gains else best
    if forward >= (1 - LEAST_GAIN) * cost[0]:
        first = best
    if backward >= (1 - LEAST_GAIN) * cost[1]:
        second = best
    return best if first is second is best else Plan(first.forward, second.backward)
