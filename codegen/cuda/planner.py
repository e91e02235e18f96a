"""Which plan a cell gets on a GPU: what is feasible, ranked by estimated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

from ...cellspec.cell import CellSpec
from ..plan import VARIANTS, Plan, Variant
from ..shape import DIRECTIONS, SAVES, PlanError, Save, Shape
from .grid.cost import least_grid_nanoseconds
from .grid.search import grid_kernels
from .kinds import KINDS
from .limits import LEAST_CAPABILITY, Limits
from .pairs import cheapest, like_pairs


@lru_cache(maxsize=2048)
def plan_for(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    variant: Variant = "auto",
    *,
    save: Save = "gates",
    tf32: bool = False,
) -> Plan:
    """The plan of a cell's kernels for a shape and a GPU.

    Args:
        cell: the cell.
        shape: sizes and dtype. What is compiled depends on head dim and dtype alone: batch, heads
            and steps are run-time values, and only help to choose among plans that all serve them.
        limits: the GPU.
        variant: `"block"`, `"cluster"`, `"grid"`, `"alternating"`, or `"auto"` for the cheapest
            that is feasible, in each direction where two kinds gain on one. `"auto"` takes no grid
            that streams a part of R.
        save: `"gates"`: the forward saves what the backward needs of the gates; `"states"`: it
            saves nothing but the states, and the backward computes the gates again.
        tf32: whether float32 products may round to tf32.

    Returns:
        The plan of each direction's kernel; printing it says why.

    Raises:
        PlanError: no plan of that variant exists; names the constraint that binds and the nearest
            size that fits.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plan.variant, plan.forward.matrix_registers
        ('block+cluster', 64)
    """
    _check(variant, save, limits)
    if variant != "auto":
        return plans_of_kind(variant, cell, shape, limits, save, tf32)[0]
    plans: list[Plan] = []
    refusals = {}
    for name in VARIANTS[1:]:
        if name == "grid" and _undercut(plans):
            continue  # the longest search, and none of its plans could be cheaper in any direction
        try:
            # If R does not fit on chip, `auto` uses an alternating plan: no streaming grid plan has
            # been measured against one, and the constants of its estimate are guesses.
            plans += plans_of_kind(name, cell, shape, limits, save, tf32, streams=False)
        except PlanError as error:
            refusals[name] = error
    if not plans:
        raise refusals["alternating"]
    best = cheapest(plans, [plan.nanoseconds for plan in plans])
    if best.variant == "alternating" and refusals:
        why = "; ".join(_reason(*item) for item in refusals.items())
        return Plan(replace(best.forward, binding=why), replace(best.backward, binding=why))
    return best


def plans_for(
    cell: CellSpec, shape: Shape, limits: Limits, *, save: Save = "gates", tf32: bool = False
) -> tuple[Plan, ...]:
    """All feasible plans of all variants, the cheapest first; both directions are of one kind.

    The arguments are those of `plan_for`.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.cuda.planner import plans_for
        >>> plans = plans_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plans[0].variant, plans[-1].variant
        ('block', 'alternating')
    """
    _check("auto", save, limits)
    plans: list[Plan] = []
    for kind in VARIANTS[1:]:
        try:
            plans += plans_of_kind(kind, cell, shape, limits, save, tf32)
        except PlanError:
            continue  # this variant has none
    return tuple(sorted(plans, key=_cost))


def plans_of_kind(
    kind: str,
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    save: Save = "gates",
    tf32: bool = False,
    *,
    streams: bool = True,
) -> tuple[Plan, ...]:
    """All feasible plans of one kind, the cheapest first.

    Args:
        kind: a variant other than `"auto"`.
        cell: the cell.
        shape: sizes and dtype.
        limits: the GPU.
        save: as for `plan_for`.
        tf32: as for `plan_for`.
        streams: whether a grid may stream a part of R.

    Raises:
        PlanError: there is none; names the constraint that binds and the nearest size that fits.
    """
    find = KINDS[kind].candidates
    if kind == "grid" and not streams:
        find = partial(grid_kernels, streams=False)
    forwards, backwards = (find(cell, shape, limits, d, save, tf32) for d in DIRECTIONS)
    return tuple(sorted(like_pairs(forwards, backwards), key=_cost))


def _check(variant: str, save: str, limits: Limits) -> None:
    if limits.capability < LEAST_CAPABILITY:
        wanted = ".".join(map(str, LEAST_CAPABILITY))
        raise PlanError(
            f"plan on {limits.name}",
            f"compute capability {'.'.join(map(str, limits.capability))}",
            f"{wanted} or later",
            'backend="reference"',
        )
    if variant != "auto" and variant not in KINDS:
        raise PlanError(
            "plan",
            f"variant={variant!r}",
            f"one of {', '.join(('auto', *KINDS))}",
            'variant="auto"',
        )
    if save not in SAVES:
        raise PlanError(
            "plan",
            f"save={save!r}",
            f"one of {', '.join(SAVES)}",
            'save="gates"',
        )


def _undercut(plans: Sequence[Plan]) -> bool:
    """Whether each direction has a kernel that costs no more than any grid kernel can."""
    costs = zip(*(plan.nanoseconds for plan in plans), strict=True)
    return bool(plans) and all(
        min(own) <= least for own, least in zip(costs, least_grid_nanoseconds(), strict=True)
    )


def _cost(plan: Plan) -> int:
    return sum(plan.nanoseconds)


def _reason(variant: str, error: PlanError) -> str:
    """What a plan of a variant would have needed."""
    return f"a {variant} wants {error.wanted}"
