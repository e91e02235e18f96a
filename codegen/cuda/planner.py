"""Which plan a cell gets on a GPU: what is feasible, ranked by estimated time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from ...cellspec.cell import CellSpec
from ...cellspec.named import named_cell
from ..plan import Plan
from ..request import PlanRequest
from ..shape import DIRECTIONS, SAVES, PlanError, Save, Shape
from .kinds import KINDS, FindKernels, PlanKind, check_variant, kinds_for
from .limits import LEAST_CAPABILITY, Limits
from .pairs import cheapest, like_pairs


@lru_cache(maxsize=2048)
def plan_for(
    cell: CellSpec | str,
    shape: Shape,
    limits: Limits,
    variant: str = "auto",
    *,
    save: Save = "gates",
    tf32: bool = False,
    features: int | None = None,
) -> Plan:
    """The plan of a cell's kernels for a shape and a GPU.

    Args:
        cell: the cell, or its name in `rnnc.cells`.
        shape: sizes and dtype. What is compiled depends on head dim and dtype alone: batch, heads
            and steps are run-time values, and only help to choose among plans that all serve them.
        limits: the GPU.
        variant: a kind of plan (`"block"`, `"cluster"`, `"grid"`, `"walk"`, `"scan"`,
            `"alternating"`, or a registered one), or `"auto"` for the cheapest feasible plan.
            `"auto"` takes a kind per direction if two kinds cost less than one. It takes no grid
            plan that streams a part of R.
        save: `"gates"`: the forward saves what the backward needs of the gates; `"states"`: it
            saves nothing but the states, and the backward computes the gates again.
        tf32: whether float32 products may round to tf32.
        features: of a module's input, for the plan of a single step of its layers; its kind is
            `"step"`, which saves gates. None for a call over time.

    Returns:
        The plan of each direction's kernel; printing it says why.

    Raises:
        CellError: there is no cell of the name, or it is neither a cell nor a name.
        PlanError: no plan of that variant exists; names the constraint that binds and the nearest
            size that fits. Or the shape or the limits are of another type.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plan.variant, plan.forward.matrix_registers
        ('block+cluster', 64)
    """
    cell = cell if isinstance(cell, CellSpec) else named_cell(cell)
    request = PlanRequest(cell, shape, limits, save, tf32, features)
    _check(variant, request)
    if variant != "auto":
        return _paired(KINDS[variant], KINDS[variant].candidates, request)[0]
    plans: list[Plan] = []
    refusals: dict[str, PlanError] = {}
    for name, kind in kinds_for(single=request.single).items():
        if kind.candidates_for_auto is None or _undercut(plans, kind, limits):
            continue
        try:
            plans += _paired(kind, kind.candidates_for_auto, request)
        except PlanError as error:
            refusals[name] = error
    if not plans:
        raise list(refusals.values())[-1]  # of the kind that takes every head
    best = cheapest(plans, [plan.costs for plan in plans])
    launches = best.forward.steps_per_launch, best.backward.steps_per_launch
    if cell.has_stages and launches == ("one", "one"):
        for kind in kinds_for(single=request.single).values():
            if kind.candidates_for_auto_else is not None:
                with suppress(PlanError):  # this kind has no plan
                    plans += _paired(kind, kind.candidates_for_auto_else, request)
        best = cheapest(plans, [plan.costs for plan in plans])
    if best.forward.steps_per_launch == "one" and refusals:
        why = "; ".join(_reason(*item) for item in refusals.items())
        return Plan(replace(best.forward, binding=why), replace(best.backward, binding=why))
    return best


def plans_for(
    cell: CellSpec, shape: Shape, limits: Limits, *, save: Save = "gates", tf32: bool = False
) -> tuple[Plan, ...]:
    """All feasible plans of the kinds that `"auto"` considers, the cheapest first.

    Both directions of a plan are of one kind.

    The arguments are those of `plan_for`.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.cuda.planner import plans_for
        >>> plans = plans_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plans[0].variant, plans[-1].variant
        ('cluster', 'alternating')
    """
    request = PlanRequest(cell, shape, limits, save, tf32)
    _check("auto", request)
    plans: list[Plan] = []
    for kind in kinds_for().values():
        if kind.candidates_for_auto is None:
            continue
        with suppress(PlanError):  # this kind has no plan
            plans += _paired(kind, kind.candidates, request)
    return tuple(sorted(plans, key=_cost))


def plans_of_kind(
    kind: str,
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    save: Save = "gates",
    tf32: bool = False,
    *,
    for_auto: bool = False,
) -> tuple[Plan, ...]:
    """All feasible plans of one kind, the cheapest first.

    Args:
        kind: a variant other than `"auto"`.
        cell: the cell.
        shape: sizes and dtype.
        limits: the GPU.
        save: as for `plan_for`.
        tf32: as for `plan_for`.
        for_auto: whether to give only the plans that `"auto"` considers.

    Raises:
        PlanError: there is none; names the constraint that binds and the nearest size that fits.
    """
    found = KINDS[kind]
    find = (for_auto and found.candidates_for_auto) or found.candidates
    return _paired(found, find, PlanRequest(cell, shape, limits, save, tf32))


def _paired(kind: PlanKind, find: FindKernels, request: PlanRequest) -> tuple[Plan, ...]:
    """Pairs of the kernels that a function finds for each direction, the cheapest first."""
    kind.check(request.cell)
    forwards, backwards = (find(request, d) for d in DIRECTIONS)
    return tuple(sorted(like_pairs(forwards, backwards), key=_cost))


def _check(variant: str, request: PlanRequest) -> None:
    limits, save = request.limits, request.save
    if limits.capability < LEAST_CAPABILITY:
        wanted = ".".join(map(str, LEAST_CAPABILITY))
        raise PlanError(
            f"plan on {limits.name}",
            f"compute capability {'.'.join(map(str, limits.capability))}",
            f"{wanted} or later",
            'backend="reference"',
        )
    check_variant(variant, single=request.single)
    if save not in SAVES:
        raise PlanError(
            "plan",
            f"save={save!r}",
            f"one of {', '.join(SAVES)}",
            'save="gates"',
        )


def _undercut(plans: Sequence[Plan], kind: PlanKind, limits: Limits) -> bool:
    """Return True if each direction has a kernel as cheap as any of a kind can be."""
    if kind.least_nanoseconds is None or not plans:
        return False
    costs = zip(*(plan.costs for plan in plans), strict=True)
    bounds = kind.least_nanoseconds(limits)
    return all(min(own) <= bound for own, bound in zip(costs, bounds, strict=True))


def _cost(plan: Plan) -> int:
    return sum(plan.costs)


def _reason(variant: str, error: PlanError) -> str:
    """Return what a plan of a variant would have needed."""
    return f"a {variant} wants {error.wanted}"
