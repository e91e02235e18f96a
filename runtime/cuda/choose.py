"""Choice of a call's plan, of one call for both directions, and of one row for packed sequences."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cuda.directions import joined
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.planner import plans_for
from ...codegen.plan import Plan
from ...codegen.request import DENSE_STEPS, steps_like
from ...codegen.shape import Direction, Masked, PlanError, Reverse, Save, Shape
from ...errors import ResidencyError
from ..call.layer_call import Choice, LayerCall
from ..call.tensors import DTYPES
from ..process.caller import warn
from ..store.tuned import Asked, on_remember, planned, recall, remember
from .driver.device import device_limits, is_described
from .driver.streams import is_capturing, on_device
from .load import load_kernel
from .spills import least_spilling
from .tune import tune


class PlanQuestion(NamedTuple):
    """Facts that a plan is chosen by; `dim` counts the units of a head, and no rows are one.

    `steps` stands for those of the calls that the plan serves, as `steps_like` gives them.
    """

    cell: CellSpec
    heads: int
    dim: int
    batch: int
    dtype: torch.dtype
    device: int
    choice: Choice
    tf32: bool
    steps: int = DENSE_STEPS

    @property
    def asked(self) -> Asked:
        """Request for the plan.

        Plans of a cell with stages save gates: those of later stages are no product of states over
        all steps. A call that saves states alone runs the forward again for its backward.
        """
        save: Save = "gates" if self.cell.has_stages else self.choice.save
        fill, limits = self.choice.fill, device_limits(self.device)
        batch, dtype = max(self.batch, 1), DTYPES[self.dtype]
        shape = Shape(self.heads, self.dim, batch, self.steps, dtype, fill)
        return Asked(self.cell, shape, limits, save, self.tf32)


def question_of(
    layer_call: LayerCall,
    batch: int,
    heads: int,
    dim: int,
    dtype: torch.dtype,
    device: int,
    steps: int = DENSE_STEPS,
) -> PlanQuestion:
    """Return what the plan of a call is chosen for."""
    sizes = heads, dim, batch, dtype, device
    return PlanQuestion(layer_call.cell, *sizes, layer_call.choice, layer_call.tf32, steps)


@lru_cache(maxsize=2048)
def choose_plan(question: PlanQuestion, direction: Direction, masked: Masked = False) -> Plan:
    """Return the plan of a call, whose kernels in the direction are compiled on first use.

    Where these spill much, it is the next plan whose kernels do not, of those that `"auto"` may
    take. A plan that a trial found has shown what it takes, and stays; but a trial has no masks.

    All plans' forwards leave the same for a backward, so each direction may step down by itself: a
    call that runs one direction compiles no kernel of the other. The same plans serve in reversed
    time and with masks.

    Raises:
        PlanError: there is no plan of the variant, or none at all for the device.
        ResidencyError: no plan has room on the device.
    """
    plan = plan_with_room(question, direction, masked)
    if is_described(question.device):
        return plan
    if question.choice.variant == "auto" and not masked and recall(question.asked) is not None:
        return plan
    return _next_without_spills(question, plan, direction, masked)


on_remember(choose_plan.cache_clear)  # what was chosen before may be another plan


def plan_with_room(question: PlanQuestion, direction: Direction, masked: Masked = False) -> Plan:
    """Return the plan of `choose_plan`, whatever its kernels spill."""
    asked, device, choice = question.asked, question.device, question.choice
    if choice.variant != "auto":
        return _of_call(asked, planned(asked, choice.variant), choice.reverse, masked)
    found = recall(asked)
    # A trial of each size that comes up.
    trials = os.environ.get("RNNC_TUNE", "") not in ("", "0")
    if found is None and trials and not (is_described(device) or is_capturing(device)):
        found = tune(asked, device).winner
    if found is None:
        found = planned(asked)
    found = _of_call(asked, found, choice.reverse, masked)
    if _has_room(asked, found.kernel(direction), device):
        return found
    return _next_best(question, direction, masked)


def _has_room(asked: Asked, plan: KernelPlan, device: int) -> bool:
    """Return True if the blocks of a kernel are on this very chip at once, or need not be."""
    if plan.launch_shape.waits_for == "none":
        return True
    try:
        with on_device(torch.device("cuda", device)):
            kernel = load_kernel(asked.cell, plan, f"rnnc_{plan.direction}", device)
    except ResidencyError:
        return False
    return (kernel.resident or 0) >= plan.waiting_blocks(asked.shape.batch, asked.shape.heads)


def _of_call(asked: Asked, plan: Plan, reverse: Reverse, masked: Masked) -> Plan:
    """Return a plan for a direction of time and masks, on which no size depends."""
    found = plan.in_time(reverse, bool(masked))
    if masked == "stored":
        return found.with_stored_resets(asked.cell, asked.limits.shared_per_block)
    return found


def all_plans(question: PlanQuestion, masked: Masked = False) -> list[Plan]:
    """Return all plans that may answer a question, the cheapest first."""
    asked = question.asked
    plans = plans_for(asked.cell, asked.shape, asked.limits, save=asked.save, tf32=asked.tf32)
    return [_of_call(asked, plan, question.choice.reverse, masked) for plan in plans]


def _with_room(question: PlanQuestion, direction: Direction, masked: Masked) -> Iterator[Plan]:
    """Yield the plans that have room, the cheapest first."""
    for plan in all_plans(question, masked):
        if _has_room(question.asked, plan.kernel(direction), question.device):
            yield plan


def _next_best(question: PlanQuestion, direction: Direction, masked: Masked) -> Plan:
    """Return the cheapest plan that has room: the one place that steps down, and says so."""
    asked = question.asked
    plan = next(_with_room(question, direction, masked), None)
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


def _next_without_spills(
    question: PlanQuestion, plan: Plan, direction: Direction, masked: Masked
) -> Plan:
    """Return a plan, or the next one that spills little; a warning says if none does.

    The choice is remembered, so that a later process compiles no other kernel. A variant that the
    caller named stays.
    """
    asked, device, auto = question.asked, question.device, question.choice.variant == "auto"
    request = replace(asked, instead_of=f"{direction} {plan!r}")
    found = recall(request) if auto else None
    if found is not None and _has_room(asked, found.kernel(direction), device):
        return found
    # Of a plan without R in its registers, the cell itself spills: its program is in all plans.
    resident = plan.forward.steps_per_launch == "all"
    others = _with_room(question, direction, masked) if auto and resident else ()
    found, few = least_spilling(asked, plan, direction, others)
    if auto and not (found == plan and few):
        remember(request, found)
    return found


@lru_cache(maxsize=2048)
def joins(
    layer_call: LayerCall, batch: int, heads: int, dim: int, dtype: torch.dtype, device: int
) -> bool:
    """Return True if one call of both directions, of twice the heads, is better."""
    choice = layer_call.choice
    try:
        one, both = (
            planned(question_of(layer_call, batch, count, dim, dtype, device).asked, choice.variant)
            for count in (heads, 2 * heads)
        )
    except PlanError:
        return False
    return joined(one, both, choice.fill)


_KINDS = {"scan", "walk"}  # of cells without dense matrices


def runs_as_one_row(question: PlanQuestion, total: int, steps: int) -> bool:
    """Return True if one row of all steps takes no longer than padded rows.

    The question is about the padded rows, the longest of `steps`, all of `total` steps. Copies into
    padded rows are left out of the comparison, which favours these.
    """
    cell, variant = question.cell, question.choice.variant
    if variant not in {"auto", *_KINDS}:
        return False
    row = _kind_and_cost(question._replace(batch=1, steps=steps_like(cell, total)))
    if row is None or not _KINDS.issuperset(row[0].split("+")):
        return False
    if variant == "scan":
        return True
    padded = _kind_and_cost(question._replace(steps=steps_like(cell, steps)))
    return padded is not None and row[1] * total <= padded[1] * steps


@lru_cache(maxsize=512)
def _kind_and_cost(question: PlanQuestion) -> tuple[str, float] | None:
    """Return the kind of a plan and its cost per step; None without a plan."""
    asked, variant = question.asked, question.choice.variant
    try:
        found = recall(asked) if variant == "auto" else None
        plan = found or planned(asked, variant)
    except PlanError:
        return None  # the call itself says why
    return plan.variant, float(sum(plan.costs))


on_remember(_kind_and_cost.cache_clear)
