"""The search for scan plans."""

from __future__ import annotations

from itertools import product

from ...derive import derive
from ...layout import layout_of
from ...request import PlanRequest
from ...shape import Direction, PlanError
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..kernel_plan import KernelPlan
from ..walk.search import walk_kernels
from .cost import scan_start, scan_step
from .form import NoScanError, form_of
from .plan import ScanPlan

_WARPS: dict[Direction, int] = {"forward": 8, "backward": 8}
_CHUNK: dict[Direction, int] = {"forward": 16, "backward": 8}
_BLOCKS: dict[Direction, int] = {"forward": 4, "backward": 4}


def scan_kernels(request: PlanRequest, direction: Direction) -> tuple[ScanPlan, ...]:
    """The scan plan of one direction.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: a scan does not compute the direction; says what keeps it.
    """
    return (_plan(request, direction, _WARPS[direction], _CHUNK[direction], _BLOCKS[direction]),)


def scan_tilings(request: PlanRequest, direction: Direction) -> tuple[ScanPlan, ...]:
    """Scan plans with other sizes of tiles, for measurements.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `scan_kernels`.
    """
    sizes = product((4, 8, 16), (8, 16), (16, 24, 32))
    return tuple(
        _plan(request, direction, warps, chunk, all_warps // warps)
        for warps, chunk, all_warps in sizes
        if all_warps % warps == 0
    )


def scan_or_walk_kernels(request: PlanRequest, direction: Direction) -> tuple[KernelPlan, ...]:
    """The plan of `scan_kernels`, or a walk forward where only the backward is a scan.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: the backward is no scan; says what keeps it.
    """
    if direction == "forward" and request.cell.recurrence.adjoint == "affine":
        try:
            return scan_kernels(request, direction)
        except PlanError:
            return walk_kernels(request, direction)
    return scan_kernels(request, direction)


def _plan(
    request: PlanRequest, direction: Direction, warps: int, chunk: int, blocks: int
) -> ScanPlan:
    """The plan with tiles of such a size, and so many blocks per SM."""
    cell, shape, limits = request.cell, request.shape, request.limits
    try:
        form = form_of(cell, direction)
    except NoScanError as reason:
        raise PlanError(
            f"scan plan of {cell.name} for {shape}, {direction}",
            str(reason),
            "a step that is affine in what it carries on, in each direction",
            'variant="auto"',
        ) from None
    layout = layout_of(cell)
    plan = ScanPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        tf32=request.tf32,
        save=request.save,
        head_dim=shape.head_dim,
        warps=warps,
        chunk=chunk,
        carried=len(form.carried),
        sums=len(layout.bias) + len(layout.params) + len(layout.diagonal_gates),
        states=len(layout.states),
        blocks_per_multiprocessor=blocks,
        registers=limits.registers_for(32 * warps * blocks),
    )
    inputs = CostInputs.of(cell, shape, limits, request.tf32)
    from dataclasses import replace

    estimate = StepEstimate.of(scan_step(inputs, plan), scan_start(inputs, plan))
    return replace(plan, estimate=estimate)
