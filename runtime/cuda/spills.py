"""Spills of kernels from registers: which plan has few, and a warning where none has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.plan import Plan
from ...codegen.request import PlanRequest
from ...codegen.shape import Direction
from ..call.facts import facts_of
from ..process.caller import warn_once
from ..store.compiled import kernels_in_words
from .nvrtc import compile_plan

# Bytes per thread, stored and loaded. LSTM, 12 heads of 64, batch 256, bfloat16, H200, 2026-11-23:
# a forward with masks that spills 612 takes 1.18 ms, with a block less per SM 0.78, without masks
# 0.69 (60 spilled).
MOST_SPILLED = 256
_MORE_PLANS = 3  # that are compiled where the first one spills more


def spilled_bytes(cell: CellSpec, plan: KernelPlan) -> int:
    """Return the bytes per thread that the kernels of a plan spill, compiled on first use.

    Spills are bytes of stores and loads. What a kernel keeps in local memory beyond the carried
    values of its loops counts too: an array that should be in registers is there.
    """
    reports = compile_plan(cell, plan).reports.values()
    spilled = max((report.spills for report in reports), default=0)
    stack = max((report.stack for report in reports), default=0)
    if stack <= max(spilled, MOST_SPILLED):
        return spilled  # and the facts of the cell are not asked for
    kept = facts_of(cell).kept if plan.direction == "backward" else 0
    return max(spilled, stack - kept * (8 if plan.scalar.real == "double" else 4))


def least_spilling(
    asked: PlanRequest, plan: Plan, direction: Direction, others: Iterable[Plan] = ()
) -> tuple[Plan, bool]:
    """Return the first of a few plans that spills little, or else the least, and whether it does.

    They are the plan, the same with more registers per thread, and the others, in this order. At
    most `_MORE_PLANS` besides the plan are compiled. A warning says if all spill much.
    """
    found: list[tuple[Plan, int]] = []
    for each in islice(_distinct(asked, plan, direction, others), 1 + _MORE_PLANS):
        found.append((each, spilled_bytes(asked.cell, each.kernel(direction))))
        if found[-1][1] <= MOST_SPILLED:
            return each, True
    best, _ = min(found, key=lambda pair: pair[1])
    tell_of_spills(asked.cell, best.kernel(direction))
    return best, False


def _distinct(
    asked: PlanRequest, plan: Plan, direction: Direction, others: Iterable[Plan]
) -> Iterator[Plan]:
    """Yield plans whose kernels in the direction differ."""
    seen: list[KernelPlan] = []
    for each in chain(_with_more_registers(asked, plan, direction), others):
        kernel = each.kernel(direction)
        if kernel not in seen:
            seen.append(kernel)
            yield each


def _with_more_registers(asked: PlanRequest, plan: Plan, direction: Direction) -> Iterator[Plan]:
    """Yield a plan, and the same with more and more registers for a kernel that spills much."""
    yield plan
    kernel: KernelPlan | None = plan.kernel(direction)
    while kernel is not None and spilled_bytes(asked.cell, kernel) > MOST_SPILLED:
        kernel = kernel.with_more_registers(asked.limits)
        if kernel is not None:
            yield replace(plan, **{direction: kernel})


def tell_of_spills(cell: CellSpec, plan: KernelPlan) -> None:
    """Warn of kernels that spill much, once in a process."""
    spilled = spilled_bytes(cell, plan)
    if spilled > MOST_SPILLED:
        units = plan.agreed.get("head_dim")
        sized = f", {units} units per head" if units else ""
        warn_once(
            f"{kernels_in_words(cell.name, plan)}{sized}: the kernel spills {spilled} bytes per"
            " thread from registers to memory, which takes time in every step. Fewer operations per"
            " step may spill less: rnnc.repeat(n, step, *values) where a Python loop unrolls. So"
            " may another variant, or a dtype of fewer bytes. `rnnc tune` finds the plan that takes"
            " the least time"
        )
