"""Launcher of the one kernel of a resident plan."""

from __future__ import annotations

from ....cellspec.cell import CellSpec
from ....codegen.cuda.kernel_plan import KernelPlan
from ..launch import Kernel, Launcher
from ..load import load_kernel


class ResidentLauncher(Launcher):
    """Launcher of a plan with one kernel, which is loaded by its first launch."""

    recorded = True
    _kernel: Kernel | None = None

    def __init__(self, cell: CellSpec, plan: KernelPlan, device: int) -> None:
        self._cell, self._plan, self._device = cell, plan, device

    @property
    def kernel(self) -> Kernel:
        """The kernel on the device."""
        if self._kernel is None:
            name = f"rnnc_{self._plan.direction}"
            self._kernel = load_kernel(self._cell, self._plan, name, self._device)
        return self._kernel
