"""Launches of grid plans: blocks on the whole GPU that exchange data through a buffer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.grid.plan import GridPlan
from ..arguments import struct_around
from ..launch import CallSizes, fill_bytes
from ..products.rearrange import put_in_order
from .launcher import ResidentLauncher

_SENTINEL = 0xFF  # each byte of a word that no kernel publishes


class GridLauncher(ResidentLauncher):
    """Launcher of the kernel of a grid plan, once per wave of batch rows."""

    def __init__(self, cell: CellSpec, plan: GridPlan, sizes: CallSizes, device: int) -> None:
        super().__init__(cell, plan, device)
        self._buffers = plan.buffer_bytes(sizes.batch, sizes.heads)
        self._waves = [
            (first, (plan.blocks, groups, sizes.heads))
            for first, groups in waves(plan, sizes.batch)
        ]

    def matrix(self, R: Tensor | None) -> Tensor | None:
        """Return R, transposed for a backward, whose blocks keep the rows of the transpose."""
        if R is None or self._plan.direction == "forward":
            return R
        return put_in_order(R.mT)

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        per_step, fixed = self._buffers
        exchange = like.new_empty((steps or 1) * per_step, dtype=torch.uint8)
        streamed = like.new_empty(fixed, dtype=torch.uint8)
        struct = struct_around("GridArguments", type(arguments))
        for first, grid in self._waves:
            fill_bytes(exchange, _SENTINEL)
            self.kernel(
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
