"""Which plan a cell gets on a GPU: what is feasible, ranked by what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from ...cellspec.cell import CellSpec
from ..plan import VARIANTS, CudaPlan, Variant
from ..shape import SAVES, PlanError, Save, Shape
from .alternating.plan import AlternatingPlan
from .alternating.search import alternating_plan, alternating_plans
from .block.search import block_plan
from .cluster.search import cluster_plan, cluster_plans
from .grid.cost import least_grid_nanoseconds
from .grid.search import grid_plan, grid_plans
from .limits import LEAST_CAPABILITY, Limits
from .mixed_plan import CallPlan, cheapest


@lru_cache(maxsize=2048)
def plan_for(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    variant: Variant = "auto",
    *,
    save: Save = "gates",
    tf32: bool = False,
) -> CallPlan:
    """The plan of a cell's kernels for a shape and a GPU.

    Args:
        cell: the cell.
        shape: sizes and dtype. What is compiled depends on head dim and dtype alone: batch, heads
            and steps are run-time values, and only help to choose among plans that all serve them.
        limits: the GPU.
        variant: `"block"`, `"cluster"`, `"grid"`, `"alternating"`, or `"auto"` for the cheapest
            that is feasible, in each direction where two plans gain on one; a grid that streams a
            part of R is taken by name alone.
        save: `"gates"`: the forward keeps what the backward needs of the gates; `"states"`: it
            keeps nothing but the states, and the backward computes the gates again.
        tf32: whether float32 products may round to tf32.

    Returns:
        A `BlockPlan`, `ClusterPlan`, `GridPlan` or `AlternatingPlan`, or for `"auto"` a `MixedPlan`
        of two of the first three; printing it says why, and its `of` gives each direction's plan.

    Raises:
        PlanError: no plan of that variant exists; names what binds and the nearest size that fits.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plan.variant, plan.of("forward").forward.matrix_registers
        ('block+cluster', 64)
    """
    _check(variant, save, limits)
    if variant != "auto":
        return _BEST[variant](cell, shape, limits, save, tf32)
    plans: list[CudaPlan] = []
    refusals = {}
    for name, find in _AUTO.items():
        if name == "grid" and _undercut(plans):
            continue  # the longest search, and none of its plans could be cheaper in any direction
        try:
            plans += find(cell, shape, limits, save, tf32)
        except PlanError as error:
            refusals[name] = error
    if not plans:
        raise refusals["alternating"]
    best = cheapest(plans, [plan.nanoseconds for plan in plans])
    if isinstance(best, AlternatingPlan):
        return replace(best, binding="; ".join(_reason(*item) for item in refusals.items()))
    return best


def plans_for(
    cell: CellSpec, shape: Shape, limits: Limits, *, save: Save = "gates", tf32: bool = False
) -> tuple[CudaPlan, ...]:
    """All feasible plans of all variants, the cheapest first; none is mixed.

    The arguments are those of `plan_for`.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.cuda.planner import plans_for
        >>> plans = plans_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> type(plans[0]).__name__, type(plans[-1]).__name__
        ('BlockPlan', 'AlternatingPlan')
    """
    _check("auto", save, limits)
    plans: list[CudaPlan] = []
    for find in _ALL.values():
        try:
            plans += find(cell, shape, limits, save, tf32)
        except PlanError:
            continue  # this variant has none
    return tuple(sorted(plans, key=_cost))


def _check(variant: str, save: str, limits: Limits) -> None:
    if limits.capability < LEAST_CAPABILITY:
        wanted = ".".join(map(str, LEAST_CAPABILITY))
        raise PlanError(
            f"plan on {limits.name}",
            f"compute capability {'.'.join(map(str, limits.capability))}",
            f"{wanted} or later",
            'backend="reference"',
        )
    if variant not in VARIANTS:
        raise PlanError(
            "plan",
            f"variant={variant!r}",
            f"one of {', '.join(VARIANTS)}",
            'variant="auto"',
        )
    if save not in SAVES:
        raise PlanError(
            "plan",
            f"save={save!r}",
            f"one of {', '.join(SAVES)}",
            'save="gates"',
        )


_Best = Callable[[CellSpec, Shape, Limits, Save, bool], CudaPlan]
_All = Callable[[CellSpec, Shape, Limits, Save, bool], Sequence[CudaPlan]]

# In the order of preference, where two cost the same.
_BEST: dict[Variant, _Best] = {
    "block": block_plan,
    "cluster": cluster_plan,
    "grid": grid_plan,
    "alternating": alternating_plan,
}
_ALL: dict[Variant, _All] = {
    "block": lambda *asked: (block_plan(*asked),),
    "cluster": cluster_plans,
    "grid": grid_plans,
    "alternating": alternating_plans,
}
# What R does not fit, an alternating plan takes: no plan that streams has been measured beside one,
# and the constants of its estimate are no more than a guess. A trial may choose it.
_AUTO: dict[Variant, _All] = {**_ALL, "grid": partial(grid_plans, streams=False)}


def _undercut(plans: Sequence[CudaPlan]) -> bool:
    """Whether each direction has a plan that costs no more than any grid plan can."""
    costs = zip(*(plan.nanoseconds for plan in plans), strict=True)
    return bool(plans) and all(
        min(own) <= least for own, least in zip(costs, least_grid_nanoseconds(), strict=True)
    )


def _cost(plan: CudaPlan) -> int:
    return sum(plan.nanoseconds)


def _reason(variant: str, error: PlanError) -> str:
    """What a plan of a variant would have needed."""
    return f"a {variant} wants {error.wanted}"
