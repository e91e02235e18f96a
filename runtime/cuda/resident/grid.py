"""Launches of grid plans: blocks on the whole GPU that exchange data through a buffer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.grid.plan import GridPlan
from ..arguments import grid_struct
from ..launch import CallSizes, Kernel, Launcher, fill_bytes
from ..load import load_kernel
from ..products.rearrange import put_in_order

_SENTINEL = 0xFF  # each byte of a word that no kernel publishes


class GridLauncher(Launcher):
    """Launcher of the kernel of a grid plan, once per wave of batch rows."""

    __slots__ = ("_buffers", "_cell", "_device", "_kernel", "_plan", "_waves")

    recorded = True

    def __init__(self, cell: CellSpec, plan: GridPlan, sizes: CallSizes, device: int) -> None:
        self._cell, self._plan, self._device = cell, plan, device
        self._buffers = plan.buffer_bytes(sizes.batch, sizes.heads)
        self._waves = [
            (first, (plan.blocks, groups, sizes.heads))
            for first, groups in waves(plan, sizes.batch)
        ]
        self._kernel: Kernel | None = None

    def matrix(self, R: Tensor | None) -> Tensor | None:
        """Return R, transposed for a backward, whose blocks keep the rows of the transpose."""
        if R is None or self._plan.direction == "forward":
            return R
        return put_in_order(R.mT)

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        kernel = self._kernel
        if kernel is None:
            plan, device = self._plan, self._device
            kernel = load_kernel(self._cell, plan, f"rnnc_{plan.direction}", device)
            self._kernel = kernel
        per_step, fixed = self._buffers
        exchange = like.new_empty((steps or 1) * per_step, dtype=torch.uint8)
        streamed = like.new_empty(fixed, dtype=torch.uint8)
        struct = grid_struct(type(arguments))
        for first, grid in self._waves:
            fill_bytes(exchange, _SENTINEL)
            kernel(
                grid,
                struct(
                    arguments, exchange.data_ptr(), streamed.data_ptr() if fixed else None, first
                ),
            )


def waves(plan: GridPlan, batch: int) -> Iterator[tuple[int, int]]:
    """Yield the launches of a grid plan: the first group of each, and how many groups it has."""
    groups = plan.batch_tiles(batch)
    for first in range(0, groups, plan.groups):
        yield first, min(plan.groups, groups - first)
