"""The search for scan plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ...derive import derive
from ...layout import layout_of, states_read_before
from ...request import PlanRequest
from ...shape import Direction, PlanError
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..kernel_plan import KernelPlan
from ..mma import RESERVED_SHARED
from ..unit_plan import values_kept
from ..walk.search import walk_kernels
from .cost import scan_start, scan_step
from .form import Form, NoScanError, form_of
from .functions import step_functions
from .plan import CHANNELS, ScanPlan, real_bytes

_WARPS = 8  # per block
# Blocks per SM: 128 registers per thread, or 80 in a backward whose steps are in shared memory.
_BLOCKS: dict[Direction, int] = {"forward": 2, "backward": 3}
# Steps per thread.
_CHUNKS: dict[Direction, tuple[int, ...]] = {"forward": (24, 16, 8, 4), "backward": (16, 8, 4)}
# Registers that the steps of a thread keep, at most, if they are loaded there. More are spilled.
_MOST_KEPT: dict[Direction, int] = {"forward": 112, "backward": 104}

_MOST_KEPT_STAGED = 32  # in a backward whose steps are in shared memory


def scan_kernels(request: PlanRequest, direction: Direction) -> tuple[ScanPlan, ...]:
    """The scan plan of one direction.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: a scan does not compute the direction; says what keeps it.
    """
    form = _form(request, direction)
    whole = (True, False) if request.shape.head_dim % CHANNELS == 0 else (False,)
    return (next(found for w in whole for found in _fitting(request, form, direction, w)),)


def scan_tilings(request: PlanRequest, direction: Direction) -> tuple[ScanPlan, ...]:
    """Scan plans with other sizes of tiles, for measurements.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `scan_kernels`.
    """
    form = _form(request, direction)
    (own,) = scan_kernels(request, direction)
    sizes = product((4, 8, 16), _CHUNKS[direction], (16, 24, 32))
    found = (
        _plan(request, form, direction, own.whole_warps, warps, chunk, on_one // warps)
        for warps, chunk, on_one in sizes
        if on_one >= warps
    )
    fitting = (plan for plan in found if plan.shared <= request.limits.shared_per_block)
    return tuple(dict.fromkeys((own, *fitting)))


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


def _form(request: PlanRequest, direction: Direction) -> Form:
    try:
        return form_of(request.cell, direction)
    except NoScanError as reason:
        raise PlanError(
            f"scan plan of {request.cell.name} for {request.shape}, {direction}",
            str(reason),
            "a step that is affine in what it carries on, in each direction",
            'variant="auto"',
        ) from None


def _fitting(
    request: PlanRequest, form: Form, direction: Direction, whole_warps: bool
) -> Iterator[ScanPlan]:
    """The plans with at most so many steps per thread that its registers have room for.

    Those whose steps are in shared memory leave room for two blocks per SM.
    """
    # Numbers of eight bytes take two registers: one block per SM has twice as many per thread.
    blocks = _BLOCKS[direction if whole_warps else "forward"]
    blocks = 1 if request.shape.element_bytes == 8 else blocks
    most = _chunk(request, form, direction, whole_warps)
    for chunk in (n for n in _CHUNKS[direction] if n <= most):
        plan = _plan(request, form, direction, whole_warps, _WARPS, chunk, blocks)
        shared = replace(plan, masked=True).shared
        fits = shared <= request.limits.shared_per_block
        if not whole_warps or (fits and plan.blocks_per_multiprocessor >= min(blocks, 2)):
            yield plan


def _chunk(request: PlanRequest, form: Form, direction: Direction, whole_warps: bool) -> int:
    """How many steps a thread has, so that their values stay in registers."""
    cell, shape = request.cell, request.shape
    layout, pointwise = layout_of(cell), derive(cell, activations=request.save == "gates")

    def packed(elements: int) -> int:
        """Registers of neighbouring elements; an odd number of two-byte ones is not packed."""
        used = elements * shape.element_bytes
        return elements if used % 4 else used // 4

    passed = sorted(ScanPlan.passed) if direction == "forward" else ()
    early = len(step_functions(pointwise, direction, passed).early.results)
    computed = (early + len(layout.unweighted)) * real_bytes(shape.dtype) // 4
    saved = packed(values_kept(request, direction))
    if direction == "forward":
        kept = packed(len(layout.input_gates)) + computed + saved
    else:
        states = len(layout.states) + sum(states_read_before(pointwise))
        columns = len(form.carried) ** 2 - 1
        if whole_warps:  # the rest is in shared memory
            most = _MOST_KEPT_STAGED
            return next((n for n in _CHUNKS[direction] if n * (computed + columns) <= most), 4)
        kept = saved + states * packed(1) + computed + packed(len(layout.gradients)) + columns
    chunks, most = _CHUNKS[direction], _MOST_KEPT[direction]
    return next((n for n in chunks if n * kept <= most), chunks[-1])


def _plan(
    request: PlanRequest,
    form: Form,
    direction: Direction,
    whole_warps: bool,
    warps: int,
    chunk: int,
    blocks: int,
) -> ScanPlan:
    """The plan with tiles of such a size, and so many blocks per SM."""
    cell, shape, limits = request.cell, request.shape, request.limits
    layout, forward = layout_of(cell), direction == "forward"
    pointwise = derive(cell, activations=request.save == "gates")
    read = len(layout.states) + values_kept(request, direction)
    plan = ScanPlan.of(
        request,
        direction,
        warps=warps,
        chunk=chunk,
        whole_warps=whole_warps,
        copied=len(layout.input_gates) if forward else read,
        states_copied=0 if forward else sum(states_read_before(pointwise)),
        carried=len(form.carried),
        sums=len(layout.bias) + len(layout.params) + len(layout.diagonal_gates),
        states=len(layout.states),
    )
    # A GPU may have too little shared memory for the sums of as many blocks.
    masked = replace(plan, masked=True).shared
    fitting = limits.shared_per_multiprocessor // (masked + RESERVED_SHARED)
    plan = plan.sharing(limits, max(min(blocks, fitting), 1))
    inputs = CostInputs.of(cell, shape, limits, request.tf32)
    start, steps = scan_start(inputs, plan), shape.steps
    return replace(plan, estimate=StepEstimate.of(scan_step(inputs, plan), start, steps))
