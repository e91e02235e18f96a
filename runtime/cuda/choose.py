"""Choice of a call's plan: of the caller's variant, or the fastest by a trial or by the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.planner import plans_for
from ...codegen.plan import Plan
from ...codegen.shape import DIRECTIONS, Direction, Masked, Reverse, Shape
from ...errors import ResidencyError
from ..call.dtypes import DTYPES
from ..call.layer_call import Choice
from ..process.caller import warn
from ..store.planned import planned
from ..store.tuned import Asked, on_remember, recall
from .driver.described import is_described
from .driver.device import device_limits
from .driver.streams import is_capturing
from .launch import on_device
from .load import load_kernel
from .tune import tune

# What a plan is chosen for: the arguments of `choose_plan`, but for the direction.
Question = tuple[CellSpec, int, int, int, torch.dtype, int, Choice, bool]


@lru_cache(maxsize=2048)
def choose_plan(
    cell: CellSpec,
    heads: int,
    dim: int,
    batch: int,
    dtype: torch.dtype,
    device: int,
    choice: Choice,
    tf32: bool,
    direction: Direction | None = None,
    masked: Masked = False,
) -> Plan:
    """Return the plan of a call.

    All plans' forwards leave the same for a backward, so each direction may step down by itself: a
    call that runs one direction compiles no kernel of the other. The same plans serve in reversed
    time and with masks.

    Args:
        dim: units of a head.
        batch: rows; none count as one.
        tf32: whether torch lets float32 products round to TF32.
        direction: that runs, for which a plan from `"auto"` must have room; None for both.

    Raises:
        PlanError: there is no plan of the variant, or none at all for the device.
        ResidencyError: no plan has room on the device.
    """
    asked = asked_for(cell, heads, dim, batch, dtype, device, choice, tf32)
    reverse = choice.reverse
    if choice.variant != "auto":
        return _of_call(asked, planned(asked, choice.variant), reverse, masked)
    found = recall(asked)
    if found is None and _tuning_wanted() and not (is_described(device) or is_capturing(device)):
        found = tune(asked, device).winner
    if found is None:
        found = planned(asked)
    found = _of_call(asked, found, reverse, masked)
    wanted = DIRECTIONS if direction is None else (direction,)
    if _has_room(cell, found, asked.shape, device, wanted):
        return found
    return _next_best(asked, device, wanted, reverse, masked)


on_remember(choose_plan.cache_clear)  # what was chosen before may be another plan


def asked_for(*question: *Question) -> Asked:
    """Return what a plan is asked for, by the arguments of `choose_plan`."""
    cell, heads, dim, batch, dtype, device, choice, tf32 = question
    shape = Shape(heads, dim, max(batch, 1), dtype=DTYPES[dtype], fill=choice.fill)
    return Asked(cell, shape, device_limits(device), choice.save, tf32)


def _tuning_wanted() -> bool:
    """Return True if `RNNC_TUNE` asks for a trial of each size that comes up."""
    return os.environ.get("RNNC_TUNE", "") not in ("", "0")


def _has_room(
    cell: CellSpec,
    plan: Plan,
    shape: Shape,
    device: int,
    directions: Sequence[Direction] = DIRECTIONS,
) -> bool:
    """Return True if blocks that wait for each other are on the chip together, per direction.

    A plan counts multiprocessors; how many clusters fit depends on how those lie on this very chip.
    """
    return all(_fits(cell, getattr(plan, d), shape, device) for d in directions)


def _fits(cell: CellSpec, plan: KernelPlan, shape: Shape, device: int) -> bool:
    """Return True if the blocks of a direction's kernel are on the chip at once, or need not be."""
    if plan.launch_shape.waits_for == "none":
        return True
    try:
        with on_device(torch.device("cuda", device)):
            kernel = load_kernel(cell, plan, f"rnnc_{plan.direction}", device)
    except ResidencyError:
        return False
    return (kernel.resident or 0) >= plan.waiting_blocks(shape.batch, shape.heads)


def _of_call(asked: Asked, plan: Plan, reverse: Reverse, masked: Masked) -> Plan:
    """Return a plan for a direction of time and masks, on which no size depends."""
    found = plan.in_time(reverse, bool(masked))
    if masked == "stored":
        return found.with_stored_resets(asked.cell, asked.limits.shared_per_block)
    return found


def all_plans(asked: Asked, reverse: Reverse, masked: Masked = False) -> list[Plan]:
    """Return all plans for a direction of time, the cheapest first."""
    plans = plans_for(asked.cell, asked.shape, asked.limits, save=asked.save, tf32=asked.tf32)
    return [_of_call(asked, plan, reverse, masked) for plan in plans]


def _next_best(
    asked: Asked,
    device: int,
    directions: Sequence[Direction],
    reverse: Reverse,
    masked: Masked = False,
) -> Plan:
    """Return the cheapest plan that has room: the one place that steps down, and says so."""
    plans = all_plans(asked, reverse, masked)
    plan = next(
        (p for p in plans if _has_room(asked.cell, p, asked.shape, device, directions)), None
    )
    if plan is None:
        raise ResidencyError(
            f"plan of {asked.cell.name}, {asked.shape}",
            f"no plan whose blocks fit on {asked.limits.name} at once",
            "a device, or a part of one, that holds the blocks of one plan",
            'backend="reference", fewer heads, or a smaller batch',
        )
    warn(
        f"{asked.limits.name} has no room for the blocks of the cheapest plan of"
        f" {asked.cell.name}, {asked.shape}; rnnc takes the next:\n{plan}"
    )
    return plan
