"""Launcher of the one kernel of a resident plan."""

from __future__ import annotations

from functools import cached_property

from ....cellspec.cell import CellSpec
from ....codegen.cuda.kernel_plan import KernelPlan
from ..launch import Kernel, Launcher
from ..load import load_kernel


class ResidentLauncher(Launcher):
    """Launcher of a plan with one kernel, which is loaded by its first launch."""

    recorded = True

    def __init__(self, cell: CellSpec, plan: KernelPlan, device: int) -> None:
        self._cell, self._plan, self._device = cell, plan, device

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel on the device."""
        return load_kernel(self._cell, self._plan, f"rnnc_{self._plan.direction}", self._device)
