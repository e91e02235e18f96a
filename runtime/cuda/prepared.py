"""Directions of calls, prepared without tensors: made once for all calls of a size."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import MIB
from ...codegen.layout import Product, layout_of
from ...errors import DiagnosticError, ResidencyError
from ..call.facts import Counts, facts_of
from ..process.caller import warn
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


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Direction of a call, besides its tensors and the number of steps.

    Attributes:
        products: those that give the gradient of R.
        step_bytes: bytes per step that the launches need besides the tensors of the call.
        fixed_bytes: bytes that they need for any number of steps.
        others: gives the plans of this direction that may run in place of this one if it has no
            room, the cheapest first; None if the caller chose the plan.
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
    others: Callable[[], Iterable[KernelPlan]] | None = None


@lru_cache(maxsize=1024)
def prepare(cell: CellSpec, plan: KernelPlan, sizes: CallSizes, device: int) -> Prepared:
    """Prepare calls of one size. Their kernel is compiled and loaded by the first of them."""
    return Prepared(
        cell,
        plan,
        sizes,
        device,
        facts_of(cell).counts,
        layout_of(cell).products,
        arguments_of(cell, plan.direction, plan.masked, plan.gates_again),
        launcher_of(cell, plan, sizes, device),
        *plan.buffer_bytes(sizes.batch, sizes.heads),
    )


def launched(ready: Prepared, launch: Callable[[Prepared], Result], steps: int) -> Result:
    """Launch by the plan, or by the cheapest other one that has room, if the caller chose none.

    A driver may refuse what the device has room for: under MPS and in a green context a call has
    only a part of the device. A warning says which plan runs instead. Where no plan has room or
    memory, the error of the first says so.
    """
    if ready.others is None or is_described(ready.device):
        return launch(ready)
    why = _lack_of_memory(ready, steps)
    if not why:
        try:
            return launch(ready)
        except NO_ROOM as error:
            why = str(error)
    refuse_recording()
    own = ready.plan
    for plan in ready.others():
        if plan == own:
            continue
        try:
            other = prepare(ready.cell, plan, ready.sizes, ready.device)
            if _lack_of_memory(other, steps):
                continue
            result = launch(other)
        except NO_ROOM:
            continue
        warn(
            f"rnnc runs the {plan.kind} plan of {ready.cell.name} where it would run the"
            f" {own.kind} plan.\n{why}"
        )
        return result
    return launch(ready)  # whose error says what is missing


def _lack_of_memory(ready: Prepared, steps: int) -> str:
    """Return the lack of memory for a plan's buffers, in words; an empty text if there is room."""
    needed = ready.step_bytes * (steps or 1) + ready.fixed_bytes
    if needed < LARGE_BUFFERS:
        return ""
    refuse_recording()  # each call asks anew how much is free
    free = free_bytes(ready.device)
    if needed <= free:
        return ""
    lack = DiagnosticError(
        f"exchange buffer of rnnc_{ready.plan.direction} on cuda:{ready.device}",
        f"{free // MIB} MiB free",
        f"{needed // MIB} MiB, for {steps} steps",
        'variant="alternating", or scan on parts of the sequence',
    )
    return str(lack)


def free_bytes(device: int) -> int:
    """Return the bytes that torch can allocate on a device, from the driver and its own cache."""
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    share = torch.cuda.get_per_process_memory_fraction(device)
    new = min(free, max(int(share * total) - reserved, 0))
    if torch.cuda.is_current_stream_capturing():
        return new  # a graph's memory does not come of the cache
    return new + reserved - torch.cuda.memory_allocated(device)
