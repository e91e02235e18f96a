"""Directions of calls, prepared without tensors: made once for all calls of a size."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import MIB
from ...codegen.layout import Product, layout_of
from ...errors import ResidencyError
from ..call.facts import Counts, facts_of
from ..program.recorder import refuse_recording
from .arguments import arguments_of
from .driver.device import is_described
from .launch import CallSizes, Launcher
from .launchers import launcher_of

# Buffers are allocated before the launch, so that nothing is half done if they do not fit.
NO_ROOM = (ResidencyError, torch.OutOfMemoryError)
# The device is asked for its free memory from here on: that takes as long as ten launches.
LARGE_BUFFERS = 256 * MIB


Result = TypeVar("Result")


# Runs a direction by its plan, of so many steps, or by another that has room, and gives the result
# of that run. The error says why the plan has just failed; None where it was not tried.
StepDown = Callable[[KernelPlan, Callable[[KernelPlan], Any], int, Exception | None], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Direction of a call, besides its tensors and the number of steps.

    Attributes:
        products: those that give the gradient of R.
        step_bytes: bytes per step that the launches need besides the tensors of the call.
        fixed_bytes: bytes that they need for any number of steps.
        step_down: takes another plan if this one has no room; None if the caller chose the plan.
    """

    cell: CellSpec
    plan: KernelPlan
    sizes: CallSizes
    device: int
    counts: Counts
    products: tuple[Product, ...]
    arguments: type[ctypes.Structure]
    launcher: Launcher
    step_bytes: int
    fixed_bytes: int
    step_down: StepDown | None = None


@lru_cache(maxsize=1024)
def prepare(cell: CellSpec, plan: KernelPlan, sizes: CallSizes, device: int) -> Prepared:
    """Prepare calls of one size. Their kernel is compiled and loaded by the first of them."""
    counts = facts_of(cell).counts
    parts = counts.states, counts.params, plan.masked, counts.unweighted, cell.has_stages
    again = plan.gates_again
    return Prepared(
        cell,
        plan,
        sizes,
        device,
        counts,
        layout_of(cell).products,
        arguments_of(plan.direction, *parts, again),
        launcher_of(cell, plan, sizes, device),
        *plan.buffer_bytes(sizes.batch, sizes.heads),
    )


def launched(ready: Prepared, launch: Callable[[Prepared], Result], steps: int) -> Result:
    """Launch, or let another plan be launched if there is no room and the caller chose none."""
    step_down = ready.step_down
    if step_down is None or is_described(ready.device):
        return launch(ready)

    def run(plan: KernelPlan) -> Result:
        return launch(prepare(ready.cell, plan, ready.sizes, ready.device))

    failed: Exception | None = None
    if ready.fixed_bytes + steps * ready.step_bytes < LARGE_BUFFERS:
        try:
            return launch(ready)
        except NO_ROOM as error:
            failed = error
    refuse_recording()
    found: Result = step_down(ready.plan, run, steps, failed)  # asks first how much memory is free
    return found
