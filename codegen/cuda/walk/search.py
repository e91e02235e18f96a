"""The search for walk plans."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

from ...derive import derive
from ...layout import layout_of, states_read_before
from ...request import PlanRequest
from ...shape import Direction, PlanError, Shape
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..mma import RESERVED_SHARED, WARP
from ..unit_plan import values_kept
from .cost import walk_start, walk_step
from .plan import WalkPlan, copied_bytes

_UNITS = (1, 2, 4)  # per thread
# Units of all rows and heads per SM from which on a thread has more than one, as far as a state of
# theirs is 8 bytes: fewer and wider accesses then count for more than a short chain of operations.
# NVIDIA H100, bfloat16, 2026-11-26: QRNN of 497 units per SM takes 0.509, 0.414 and 0.389 ms with
# 1, 2 and 4 units per thread, minLSTM of 93 units 0.078, 0.099 and 0.170.
_MANY_UNITS = 200
_WIDEST_STATE = 8  # bytes
_CHUNKS = (16, 8, 4, 2, 1)  # steps that are taken together
# Values of 32 bits that the steps of a chunk keep in registers, at most. More spill nothing, but
# the steps take longer. Threads with several units are few on an SM, and have more registers.
_MOST_VALUES: dict[Direction, int] = {"forward": 80, "backward": 100}
_MOST_VALUES_OF_SEVERAL: dict[Direction, int] = {"forward": 160, "backward": 240}
# Steps between a load and its use. A step of few warps takes some 20 ns, so they cover 1.3 us.
_AHEAD = (64, 32, 16)
# Blocks per SM for which the compiler leaves registers, at most: 128 per thread, or all of them
# where a thread has several units.
_MOST_BLOCKS, _MOST_BLOCKS_OF_SEVERAL = 16, 8
_LEAST_STAGES = 2  # one that is read, and one on its way


def walk_kernels(request: PlanRequest, direction: Direction) -> tuple[WalkPlan, ...]:
    """The walk plan of one direction, with the earliest loads.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: the cell has dense matrices or other products of several units; names them.
    """
    _check(request)
    return (_plan(request, direction, _units(request), _AHEAD[0]),)


def walk_tilings(request: PlanRequest, direction: Direction) -> tuple[WalkPlan, ...]:
    """One walk plan for each number of units per thread and of steps ahead, for measurements.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `walk_kernels`.
    """
    _check(request)
    dim = request.shape.head_dim
    sizes = product((units for units in _UNITS if dim % units == 0), _AHEAD)
    return tuple(dict.fromkeys(_plan(request, direction, *size) for size in sizes))


def _units(request: PlanRequest) -> int:
    """Return how many units a thread has: of a number that leaves warps whole, if there is one."""
    shape = request.shape
    each = shape.batch * shape.heads * shape.head_dim / request.limits.multiprocessors
    most = _WIDEST_STATE // shape.element_bytes if each >= _MANY_UNITS else 1
    dividing = [units for units in _UNITS if units <= most and shape.head_dim % units == 0]
    return max(dividing, key=lambda units: (_whole_warps(shape, units), units))


def _whole_warps(shape: Shape, units: int) -> bool:
    """Return True if the units of a warp are of one head, with so many units per thread."""
    return shape.head_dim % (WARP * units) == 0


def _check(request: PlanRequest) -> None:
    cell, shape = request.cell, request.shape
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
    whole_warps = _whole_warps(shape, units)
    plan = WalkPlan.of(
        request,
        direction,
        units=units,
        whole_warps=whole_warps,
        chunk=chunk,
        stages=1,
        step_bytes=_step_bytes(request, direction, units, whole_warps),
    )
    # With masks and values after resets, all of which have room ahead.
    masked = replace(plan, masked=True)
    stage = masked.shared + plan.reset_bytes(cell)
    places = limits.shared_per_multiprocessor // (_LEAST_STAGES * stage + RESERVED_SHARED)
    wanted = math.ceil(
        plan.blocks(shape.batch, shape.heads, shape.head_dim) / limits.multiprocessors
    )
    most_blocks = _MOST_BLOCKS if units == 1 else _MOST_BLOCKS_OF_SEVERAL
    blocks = max(1, min(wanted, most_blocks, places))
    room = limits.shared_per_multiprocessor // blocks - RESERVED_SHARED
    most = min(room, limits.shared_per_block) // stage
    stages = max(_LEAST_STAGES, min(ahead // chunk, most))
    plan = replace(plan, stages=stages).sharing(limits, blocks)
    inputs = CostInputs.of(cell, shape, limits, request.tf32)
    estimate = StepEstimate.of(
        walk_step(inputs, plan), walk_start(inputs, plan), request.shape.steps
    )
    return replace(plan, estimate=estimate)


def _chunk(request: PlanRequest, direction: Direction, units: int) -> int:
    """Return how many steps are taken together, so that their values stay in registers."""
    cell = request.cell
    layout, kept = layout_of(cell), values_kept(request, direction)
    if units > 1:
        # NVIDIA H100, 2026-11-27: QRNN takes 0.495 ms with 8 steps, which keep nothing, and with 4
        # steps 0.391 where it keeps values.
        kept = len(derive(cell, activations=request.save == "gates").saved)
    if direction == "forward":
        values = len(layout.gates) + len(layout.states) + kept
    else:
        values = 2 * len(layout.states) + len(layout.gradients) + kept + len(layout.unweighted)
    words = units * values * (2 if request.shape.dtype == "float64" else 1)
    most = (_MOST_VALUES if units == 1 else _MOST_VALUES_OF_SEVERAL)[direction]
    return next((n for n in _CHUNKS if n * words <= most), 1)


def _step_bytes(request: PlanRequest, direction: Direction, units: int, whole_warps: bool) -> int:
    """Bytes of shared memory per thread for what a step reads, as the headers lay it out."""
    cell, dtype = request.cell, request.shape.dtype
    layout, pointwise = layout_of(cell), derive(cell, activations=request.save == "gates")
    others = units * len(layout.unweighted) * copied_bytes(1, dtype)
    if direction == "forward":
        return copied_bytes(units * len(layout.input_gates), dtype, whole_warps) + others
    read = values_kept(request, direction)
    saved = copied_bytes(units * read, dtype, whole_warps)
    states = len(layout.states) + sum(states_read_before(pointwise))
    return saved + states * copied_bytes(units, dtype, whole_warps) + others
