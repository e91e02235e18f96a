"""Launches of block and cluster plans: blocks that compute one head of one tile of batch rows."""

from __future__ import annotations

import ctypes
from typing import Any

from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.kernel_plan import MOST_BLOCKS
from ....codegen.cuda.tiled_plan import TiledPlan
from ..launch import CallSizes
from .launcher import ResidentLauncher
from .parts import launches


class TiledLauncher(ResidentLauncher):
    """Launcher of the kernel of a block or cluster plan, nearly always once per call."""

    _plan: TiledPlan

    def __init__(self, cell: CellSpec, plan: TiledPlan, sizes: CallSizes, device: int) -> None:
        super().__init__(cell, plan, device)
        self._heads, self._tiles = sizes.heads, plan.batch_tiles(sizes.batch)
        self._grid = plan.grid(self._heads, self._tiles)

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        if max(self._tiles, self._heads) <= MOST_BLOCKS:  # the arguments say that it is one launch
            self.kernel(self._grid, arguments)
            return
        given: Any = arguments  # a launch copies it
        for part in launches(self._plan, self._heads, self._tiles):
            given.first_tile, given.first_head = part.first_tile, part.first_head
            self.kernel(part.grid, arguments)
