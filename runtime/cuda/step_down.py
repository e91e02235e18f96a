"""A call whose plan finds no room or no memory at its launch runs the next plan that does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import torch

from ...codegen.cuda.grid.plan import GridPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import MIB
from ...codegen.cuda.planner import plans_for
from ...codegen.shape import Direction
from ...errors import DiagnosticError
from ..errors import ResidencyError, TensorError
from .choose import Question, asked_for
from .resident import Sizes, buffer_bytes

Result = TypeVar("Result")

MOST_COUNT = 2**31 - 2**10  # steps, rows or heads: kernels count some of them in an int

# The device is asked for its free memory from here on: that takes as long as ten launches.
_LARGE = 256 * MIB
# Free memory may lie in pieces, or be taken by another process after it was counted. A plan
# allocates its buffers before its launch, so that nothing is half done where they do not fit.
_NO_ROOM = (ResidencyError, torch.OutOfMemoryError)


def with_room(
    own: KernelPlan,
    run: Callable[[KernelPlan], Result],
    sizes: Sizes,
    asked: Question | None,
) -> Result:
    """Run a direction of a call by its plan; or, where a plan was chosen for the caller, by the
    cheapest other one that has room, and say so.

    A driver may refuse what the device has room for: under MPS and in a green context a call has a
    part of it alone.

    Args:
        own: the plan.
        run: launches one.
        sizes: of the call.
        asked: what `choose_plan` was asked, by a caller who takes any plan; None for another.

    Raises:
        ResidencyError: no plan had room on the device.
        torch.OutOfMemoryError: no plan's buffers had memory.
        TensorError: there are more steps, rows or heads than the kernels count.
    """
    if max(sizes) > MOST_COUNT:
        raise TensorError(
            "wx",
            f"{sizes.steps} steps, {sizes.batch} rows, {sizes.heads} heads",
            f"at most {MOST_COUNT} of each on a GPU",
            "scan on parts of them",
        )
    if asked is None or asked[6].variant != "auto":
        return run(own)
    device = asked[5]
    why = _lack_of_memory(own, sizes, device)
    if not why:
        try:
            return run(own)
        except _NO_ROOM as error:
            why = str(error)
    for plan in _others(asked, own.direction):
        if plan == own or _lack_of_memory(plan, sizes, device):
            continue
        try:
            result = run(plan)
        except _NO_ROOM:
            continue
        warnings.warn(
            f"rnnc runs the {plan.kind} plan of {asked[0].name} where it would run the"
            f" {own.kind} plan.\n{why}",
            RuntimeWarning,
            stacklevel=2,
        )
        return result
    return run(own)  # whose error says what is missing


def _lack_of_memory(plan: KernelPlan, sizes: Sizes, device: int) -> str:
    """What a plan's buffers lack, in words; nothing where there is room for them."""
    if not isinstance(plan, GridPlan):
        return ""
    needed = sum(buffer_bytes(plan, sizes))
    if needed < _LARGE:
        return ""
    free = free_bytes(device)
    if needed <= free:
        return ""
    lack = DiagnosticError(
        f"exchange buffer of rnnc_{plan.direction} on cuda:{device}",
        f"{free // MIB} MiB free",
        f"{needed // MIB} MiB, for {sizes.steps} steps",
        'variant="alternating", or scan on parts of the sequence',
    )
    return str(lack)


def free_bytes(device: int) -> int:
    """Bytes that torch can allocate on a device: of the driver's, and of its own cache.

    Args:
        device: the device's number.
    """
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    share = torch.cuda.get_per_process_memory_fraction(device)
    new = min(free, max(int(share * total) - reserved, 0))
    if torch.cuda.is_current_stream_capturing():
        return new  # a graph's memory does not come of the cache
    return new + reserved - torch.cuda.memory_allocated(device)


@lru_cache(maxsize=64)
def _others(asked: Question, direction: Direction) -> tuple[KernelPlan, ...]:
    """All kernel plans of a direction, in the order of the plans that they are of."""
    what = asked_for(*asked)
    plans = plans_for(what.cell, what.shape, what.limits, save=what.save, tf32=what.tf32)
    return tuple(dict.fromkeys(getattr(plan, direction) for plan in plans))
