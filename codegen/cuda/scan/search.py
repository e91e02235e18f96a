"""The search for scan plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from ...derive import derive
from ...layout import layout_of, states_read_before
from ...request import PlanRequest
from ...shape import Direction, PlanError, Shape
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..cost.units import values_moved
from ..kernel_plan import KernelPlan
from ..limits import Limits
from ..mma import RESERVED_SHARED, WARP
from ..unit_plan import values_kept
from ..walk.search import walk_kernels
from .cost import scan_start, scan_step
from .form import Form, NoScanError, form_of
from .functions import step_functions
from .plan import ScanPlan, real_bytes

# Warps per block, the most that there is room for: with one block per SM 128 registers per thread,
# or all of them for numbers of eight bytes, which take two. Large tiles are few, and each waits for
# the one before it. But with many steps per thread two smaller blocks take less: one computes while
# the other waits. NVIDIA H100, bfloat16, 2026-11-27, 256 channels of HGRN over 131,072 steps take
# 0.255 ms backward with 16 warps of 16 steps each, 0.223 with two blocks of 8 warps; with 8 steps
# 0.314 and 0.328.
_WARPS, _FEW_WARPS, _BLOCKS = (16, 12, 8, 4), 8, 1
_PAIR, _LEAST_OF_PAIR = 2, 16  # blocks of _FEW_WARPS, and steps per thread
# A backward of many carried values has few steps per thread, whose matrices take the registers: it
# has few warps too, and more steps. sLSTM without R, 1 x 512 of one row, 65,536 steps, takes 2.00
# ms with 16 warps of 4 steps each, 1.83 with 8 warps of 8; with 1 % resets 2.33 and 2.11.
_MANY_CARRIED, _STEPS_OF_MANY = 3, 8
# The same of blocks that take all tiles of their channels, by how many an SM has, the last for
# more. HGRN of 62 channels per SM, 16,384 steps, takes 0.288 ms forward with 8 warps of 16 steps,
# 0.344 with 4; 0.647 backward with 8, 0.597 with 4.
_WARPS_IN_ORDER: dict[Direction, tuple[int, ...]] = {"forward": (12, 8, 4), "backward": (12, 4)}
_MOST_IN_ORDER = 12  # an SM has 16 barriers for a block
# Numbers that the steps of a thread of such a backward read and write, at most: more steps are more
# code than is fetched in time. RG-LRU, B 4, 1 x 2560, 8,192 steps, takes 0.665 ms with 16 steps and
# 0.634 with 8; with 1 % resets 0.864 and 0.742.
_MOST_VALUES_IN_ORDER = 112
# In sequences of so many steps, a backward of so few per thread takes less time with one block of
# _MOST_IN_ORDER warps than with several of 4: RG-LRU 0.622 ms, and LRU, B 16, 1 x 512, 16,384
# steps, 0.705 in place of 0.770. But minLSTM, B 16, 12 x 64, 1,024 steps, takes 0.093 in place of
# 0.088.
_LONG, _FEW_STEPS = 4096, 8
_MOST_BLOCKS_IN_ORDER = 4  # for which the compiler leaves registers
_PARTS = (0, 1, 2)  # of a warp of such a block; 0 for tiles that blocks take in turns
# Bytes of an element of a thread's steps, at most; in order more if it has so many registers.
_MOST_BYTES, _MOST_BYTES_IN_ORDER, _MANY_REGISTERS = 64, 32, 136
# Steps per thread.
_CHUNKS: dict[Direction, tuple[int, ...]] = {"forward": (24, 16, 8, 4), "backward": (16, 8, 4)}
# Registers that the steps of a thread keep, at most, if they are loaded there. More are spilled.
_MOST_KEPT: dict[Direction, int] = {"forward": 112, "backward": 104}

_MOST_KEPT_STAGED = 32  # in a backward whose steps are in shared memory


def scan_kernels(request: PlanRequest, direction: Direction) -> tuple[ScanPlan, ...]:
    """The scan plans of one direction, the cheapest first: over tiles, or a channel's in order.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: a scan does not compute the direction; says what keeps it.
    """
    form = _form(request, direction)
    found = (_own(request, form, direction, parts) for parts in _PARTS)
    return tuple(sorted(found, key=lambda plan: plan.cost))


def scan_tilings(request: PlanRequest, direction: Direction) -> tuple[ScanPlan, ...]:
    """Scan plans with other sizes of tiles, for measurements.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `scan_kernels`.
    """
    form, own = _form(request, direction), scan_kernels(request, direction)
    sizes = product(_WARPS, _CHUNKS[direction], (1, 2, 3, 4), _PARTS)
    found = (
        _plan(request, form, direction, warps, chunk, blocks, parts)
        for warps, chunk, blocks, parts in sizes
        if 16 <= warps * blocks <= 32 and (warps <= _MOST_IN_ORDER or not parts)
    )
    fitting = (plan for plan in found if _fits(plan, request.limits))
    return tuple(dict.fromkeys((*own, *fitting)))


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


def _own(request: PlanRequest, form: Form, direction: Direction, parts: int) -> ScanPlan:
    """The plan with so many parts."""
    shape, limits = request.shape, request.limits
    if not parts:
        # A thread that keeps its steps in registers has more of these, too; and one that takes
        # them three times, first for maxima.
        kept = direction == "backward" and not _whole_warps(shape, 0)
        few = _FEW_WARPS if shape.element_bytes == 8 or kept or form.maxima else _WARPS[0]
        warps = tuple(n for n in _WARPS if n <= few)
        many = len(form.linear) >= _MANY_CARRIED and direction == "backward"
        if shape.element_bytes == 2 and few > _FEW_WARPS and many:
            found = _plan(request, form, direction, _FEW_WARPS, _STEPS_OF_MANY, _BLOCKS, 0)
            if _fits(found, limits):
                return found
        if shape.element_bytes == 2 and few > _FEW_WARPS:
            pair = _largest(request, form, direction, (_FEW_WARPS,), _PAIR, 0)
            if pair.blocks_per_multiprocessor == _PAIR and pair.chunk >= _LEAST_OF_PAIR:
                return pair
        return _largest(request, form, direction, warps, _BLOCKS, 0)
    channels = shape.batch * shape.heads * shape.head_dim
    blocks = math.ceil(channels * parts / WARP / limits.multiprocessors)
    by_blocks = _WARPS_IN_ORDER["forward" if shape.element_bytes > 2 else direction]
    most = by_blocks[min(blocks, len(by_blocks)) - 1]
    warps = tuple(n for n in _WARPS if n <= most)
    blocks = min(blocks, _MOST_BLOCKS_IN_ORDER)
    found = _largest(request, form, direction, warps, blocks, parts)
    short = direction == "backward" and found.chunk <= _FEW_STEPS and parts == 1
    if short and shape.element_bytes == 2 and shape.steps >= _LONG:
        wide = _plan(request, form, direction, _MOST_IN_ORDER, found.chunk, 1, parts)
        return wide if _fits(wide, limits) else found
    return found


def _largest(
    request: PlanRequest,
    form: Form,
    direction: Direction,
    warps: Sequence[int],
    blocks: int,
    parts: int,
) -> ScanPlan:
    """The plan with as many steps per thread as there is room for, then as many warps.

    Of blocks that take all tiles of their channels it has as many warps, then steps.
    """
    shape, limits = request.shape, request.limits
    kept = _chunk(request, form, direction, _whole_warps(shape, parts))
    if parts and direction == "backward" and shape.element_bytes == 2:
        inputs = CostInputs.of(request.cell, shape, limits, request.tf32)
        kept = min(kept, _MOST_VALUES_IN_ORDER // values_moved(inputs, direction))
    chunks = [n for n in _CHUNKS[direction] if n <= kept] or [_CHUNKS[direction][-1]]
    sizes = [(count, chunk) for chunk in chunks for count in warps]
    found = []
    for count, chunk in sorted(sizes, reverse=True) if parts else sizes:
        plan = _plan(request, form, direction, count, chunk, blocks, parts)
        many = parts and shape.element_bytes == 2 and plan.registers >= _MANY_REGISTERS
        most = _MOST_BYTES_IN_ORDER if parts else _MOST_BYTES
        if not many and chunk * shape.element_bytes > most and chunk > chunks[-1]:
            continue
        if _fits(plan, limits) and plan.blocks_per_multiprocessor == blocks:
            return plan
        found.append(plan)
    return found[-1]


def _fits(plan: ScanPlan, limits: Limits) -> bool:
    """Return True if a block has room for the plan, also for rows with lengths or resets."""
    return replace(plan, masked=True).shared <= limits.shared_per_block


def _whole_warps(shape: Shape, parts: int) -> bool:
    """Return True if the channels of a warp are of one head, in pieces of 16 bytes."""
    channels = WARP // max(parts, 1)
    return shape.head_dim % channels == 0 and channels * shape.element_bytes % 16 == 0


def _chunk(request: PlanRequest, form: Form, direction: Direction, whole_warps: bool) -> int:
    """Return how many steps a thread has, so that their values stay in registers."""
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
        columns = len(form.linear) ** 2 - 1
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
    warps: int,
    chunk: int,
    blocks: int,
    parts: int,
) -> ScanPlan:
    """The plan with tiles of such a size, and so many blocks per SM; in order if it has parts."""
    cell, shape, limits = request.cell, request.shape, request.limits
    layout, forward = layout_of(cell), direction == "forward"
    pointwise = derive(cell, activations=request.save == "gates")
    read = len(layout.states) + values_kept(request, direction)
    plan = ScanPlan.of(
        request,
        direction,
        warps=warps,
        chunk=chunk,
        sequential=parts > 0,
        parts=max(parts, 1),
        whole_warps=_whole_warps(shape, parts),
        copied=len(layout.input_gates) if forward else read,
        states_copied=0 if forward else sum(states_read_before(pointwise)),
        carried=len(form.carried),
        maxima=len(form.maxima),
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
