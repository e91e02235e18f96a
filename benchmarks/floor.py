"""What the cost model says a step of a plan is made of: exchange, product and pointwise map.

There is one model, that of `rnnc.codegen`. A part is what its estimate loses when the constants of
that part are free: no nanoseconds, endless bandwidth. The rest, equations and all that comes with
them, is the pointwise part; so the three add up to the estimate. Where tiles of batch rows take
turns, an exchange that hides under another tile's work counts for nothing.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import fields, replace
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

from rnnc.codegen.cuda.alternating import cost as alternating_cost
from rnnc.codegen.cuda.alternating.plan import AlternatingPlan
from rnnc.codegen.cuda.block import cost
from rnnc.codegen.cuda.block.plan import BlockPlan
from rnnc.codegen.cuda.cluster import cost as cluster_cost
from rnnc.codegen.cuda.cluster.plan import ClusterPlan
from rnnc.codegen.cuda.grid import cost as grid_cost
from rnnc.codegen.cuda.grid.plan import GridPlan
from rnnc.codegen.cuda.kernel_plan import KernelPlan
from rnnc.codegen.cuda.limits import Limits
from rnnc.codegen.derive import derive
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape

# The tables of constants that a model reads, by the name that it knows them by.
_TABLES: tuple[tuple[ModuleType, str], ...] = (
    (cost, "H200"),
    (cluster_cost, "H200"),
    (cluster_cost, "H200_CLUSTER"),
    (grid_cost, "H200"),
    (alternating_cost, "H200"),
    (alternating_cost, "OWN"),
)
_EXCHANGE = frozenset(
    "exchange size launch kilobyte hop gather block sector cluster_hop share phase".split()
)
_PRODUCT = frozenset(
    "matrix product library_bandwidth split warp chain stream block_bandwidth bandwidth".split()
)
# Bytes a ns: endless where they are free.
_RATES = frozenset("library_bandwidth stream block_bandwidth bandwidth".split())


class Parts(NamedTuple):
    """Nanoseconds of a step."""

    exchange: float
    product: float
    pointwise: float


def parts(cell: Any, shape: Shape, limits: Limits, plan: Plan) -> tuple[Parts, Parts]:
    """What a step of a plan is made of, forward and backward, by the cost model.

    Args:
        cell: the cell.
        shape: what the plan is for.
        limits: of the GPU.
        plan: that was found for them.
    """

    def split(free: frozenset[str]) -> tuple[float, float]:
        with ExitStack() as stack:
            for module, name in _TABLES:
                table = getattr(module, name)
                stack.enter_context(mock.patch.object(module, name, _freed(table, free)))
            return estimate(cell, shape, limits, plan)

    every, no_exchange, neither = (
        split(free) for free in (frozenset(), _EXCHANGE, _EXCHANGE | _PRODUCT)
    )
    forward, backward = (
        Parts(a - b, b - c, c) for a, b, c in zip(every, no_exchange, neither, strict=True)
    )
    return forward, backward


def named_parts(cell: Any, shape: Shape, limits: Limits, plan: Plan) -> dict[str, dict[str, float]]:
    """The same by direction and name, as JSON has it. The arguments are those of `parts`."""
    both = zip(("forward", "backward"), parts(cell, shape, limits, plan), strict=True)
    return {direction: own._asdict() for direction, own in both}


def estimate(cell: Any, shape: Shape, limits: Limits, plan: Plan) -> tuple[float, float]:
    """The cost model's nanoseconds of a step, forward and backward, of a plan that is there.

    The arguments are those of `parts`.
    """
    forward, backward = (
        _kernel_estimate(derive(cell), shape, limits, kernel)
        for kernel in (plan.forward, plan.backward)
    )
    return forward, backward


def _kernel_estimate(pointwise: Any, shape: Shape, limits: Limits, plan: KernelPlan) -> float:
    match plan:
        case BlockPlan():
            return cost.block_nanoseconds(pointwise, shape, limits, plan)
        case ClusterPlan():
            return cluster_cost.cluster_nanoseconds(pointwise, shape, limits, plan)
        case GridPlan():
            waves = math.ceil(math.ceil(shape.batch / plan.rows) / plan.groups)
            return waves * grid_cost.grid_nanoseconds(pointwise, shape, limits, plan)
        case AlternatingPlan(own=None):
            return alternating_cost.library_nanoseconds(pointwise, shape, plan.direction)
        case AlternatingPlan():
            sizes = (plan.own, plan.direction)
            return alternating_cost.own_nanoseconds(pointwise, shape, limits, *sizes)
    raise TypeError(plan)


def _freed(table: Any, free: frozenset[str]) -> Any:
    """A table of constants in which those of some names cost nothing."""
    # In a fused plan's table, that of device memory, to which inputs and results go.
    names = free - {"bandwidth"} if isinstance(table, cost.Costs) else free
    own = [field.name for field in fields(table)]
    return replace(table, **{n: _nothing(n, getattr(table, n)) for n in own if n in names})


def _nothing(name: str, value: Any) -> Any:
    if name in _RATES:
        return tuple(math.inf for _ in value) if isinstance(value, tuple) else math.inf
    if isinstance(value, dict):
        return dict.fromkeys(value, 0)
    if isinstance(value, tuple):
        # One of pairs is a dictionary that can be hashed.
        return tuple((each[0], 0) if isinstance(each, tuple) else 0 for each in value)
    return 0
