"""The search for walk plans."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...derive import derive
from ...layout import layout_of, states_read_before
from ...one_stage import check_one_stage
from ...request import PlanRequest
from ...shape import Direction, PlanError
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..mma import RESERVED_SHARED
from .cost import walk_start, walk_step
from .plan import WalkPlan, copied_bytes

_UNITS = (1, 2, 4)  # per thread
_CHUNKS = (16, 8, 4, 2, 1)  # steps that are taken together
# Values of 32 bits that the steps of a chunk keep in registers, at most. More spill nothing, but
# the steps take longer.
_MOST_VALUES: dict[Direction, int] = {"forward": 80, "backward": 100}
# Steps between a load and its use. A step of few warps takes some 20 ns, so they cover 1.3 us.
_AHEAD = (64, 32, 16)
# Blocks per SM for which the compiler leaves registers: 128 per thread.
_MOST_BLOCKS = 16
_LEAST_STAGES = 2  # one that is read, and one on its way


def walk_kernels(request: PlanRequest, direction: Direction) -> tuple[WalkPlan, ...]:
    """The walk plan of one direction, with a unit per thread and the earliest loads.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: the cell has dense matrices or other products of several units; names them.
    """
    return (next(_found(request, direction)),)


def walk_tilings(request: PlanRequest, direction: Direction) -> tuple[WalkPlan, ...]:
    """One walk plan for each number of units per thread and of steps ahead, for measurements.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `walk_kernels`.
    """
    return tuple(dict.fromkeys(_found(request, direction)))


def _found(request: PlanRequest, direction: Direction) -> Iterator[WalkPlan]:
    _check(request)
    for units in _UNITS:
        if request.shape.head_dim % units == 0:
            for ahead in _AHEAD:
                yield _plan(request, direction, units, ahead)


def _check(request: PlanRequest) -> None:
    cell, shape = request.cell, request.shape
    check_one_stage(cell)
    if cell.recurrence.kind == "dense":
        raise PlanError(
            f"walk plan of {cell.name} for {shape}",
            cell.recurrence.reason,
            "a cell whose units read their own past alone",
            'variant="auto"',
        )


def _plan(request: PlanRequest, direction: Direction, units: int, ahead: int) -> WalkPlan:
    """The plan with so many units per thread, and loads so early if there is room."""
    cell, shape, limits = request.cell, request.shape, request.limits
    chunk = _chunk(request, direction, units)
    whole_warps = shape.head_dim % (WalkPlan.threads * units) == 0
    plan = WalkPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        tf32=request.tf32,
        save=request.save,
        head_dim=shape.head_dim,
        units=units,
        whole_warps=whole_warps,
        chunk=chunk,
        stages=1,
        step_bytes=_step_bytes(request, direction, units, whole_warps),
        blocks_per_multiprocessor=1,
        registers=limits.registers_for(WalkPlan.threads),
    )
    # With masks and values after resets, all of which have room ahead.
    masked = replace(plan, masked=True)
    stage = masked.shared + plan.reset_bytes(cell)
    places = limits.shared_per_multiprocessor // (_LEAST_STAGES * stage + RESERVED_SHARED)
    wanted = math.ceil(
        plan.blocks(shape.batch, shape.heads, shape.head_dim) / limits.multiprocessors
    )
    blocks = max(1, min(wanted, _MOST_BLOCKS, places))
    room = limits.shared_per_multiprocessor // blocks - RESERVED_SHARED
    most = min(room, limits.shared_per_block) // stage
    plan = replace(
        plan,
        stages=max(_LEAST_STAGES, min(ahead // chunk, most)),
        blocks_per_multiprocessor=blocks,
        registers=limits.registers_for(WalkPlan.threads * blocks),
    )
    inputs = CostInputs.of(cell, shape, limits, request.tf32)
    estimate = StepEstimate.of(walk_step(inputs, plan), walk_start(inputs, plan))
    return replace(plan, estimate=estimate)


def _chunk(request: PlanRequest, direction: Direction, units: int) -> int:
    """How many steps are taken together, so that their values stay in registers."""
    cell = request.cell
    layout, saved = layout_of(cell), _saved(request)
    if direction == "forward":
        values = len(layout.gates) + len(layout.states) + saved
    else:
        values = 2 * len(layout.states) + len(layout.gradients) + saved + len(layout.unweighted)
    words = units * values * (2 if request.shape.dtype == "float64" else 1)
    return next((n for n in _CHUNKS if n * words <= _MOST_VALUES[direction]), 1)


def _step_bytes(request: PlanRequest, direction: Direction, units: int, whole_warps: bool) -> int:
    """Bytes of shared memory per thread for what a step reads, as the headers lay it out."""
    cell, dtype = request.cell, request.shape.dtype
    layout, pointwise = layout_of(cell), derive(cell, activations=request.save == "gates")
    others = units * len(layout.unweighted) * copied_bytes(1, dtype)
    if direction == "forward":
        return copied_bytes(units * len(layout.input_gates), dtype, whole_warps) + others
    saved = copied_bytes(units * len(pointwise.saved), dtype, whole_warps)
    states = len(layout.states) + sum(states_read_before(pointwise))
    return saved + states * copied_bytes(units, dtype, whole_warps) + others


def _saved(request: PlanRequest) -> int:
    return len(derive(request.cell, activations=request.save == "gates").saved)
