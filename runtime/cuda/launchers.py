"""Launchers of the kinds of plans, in a registry that other packages can add to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.cuda.grid.plan import GridPlan
from ...codegen.cuda.kernel_plan import MOST_BLOCKS, KernelPlan
from ...codegen.cuda.kinds import variants
from ...codegen.cuda.scan.plan import ScanPlan
from ...codegen.cuda.tiled_plan import TiledPlan
from ...codegen.cuda.walk.plan import WalkPlan
from ...codegen.shape import PlanError
from .alternating.run import AlternatingLauncher
from .arguments import struct_around
from .launch import CallSizes, Kernel, Launcher, fill_bytes
from .load import load_kernel
from .products.rearrange import put_in_order
from .step.launcher import StepLauncher


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


class Launch(NamedTuple):
    """Launch of a call; its first blocks compute `first_head` and `first_tile` of batch rows."""

    grid: tuple[int, int, int]
    first_tile: int = 0
    first_head: int = 0


def launches(plan: TiledPlan, heads: int, tiles: int) -> Iterator[Launch]:
    """Yield the launches of a call of a block or cluster plan, nearly always one.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.runtime.cuda.launchers import launches
        >>> plan = plan_for(rnnc.cells.lstm, Shape(1, 64), limits_of("H200"), "block")
        >>> [(part.grid, part.first_tile) for part in launches(plan.forward, 3, 65_537)]
        [((3, 65535, 1), 0), ((3, 2, 1), 65535)]
    """
    for head, some_heads in _parts(heads, plan.most_heads):
        for tile, some_tiles in _parts(tiles, MOST_BLOCKS):
            yield Launch(plan.grid(some_heads, some_tiles), tile, head)


def _parts(count: int, most: int) -> list[tuple[int, int]]:
    """Return the parts that a launch takes at once: the first of each, and how many it has."""
    return [(i, min(most, count - i)) for i in range(0, count, most)]


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


class WalkLauncher(ResidentLauncher):
    """Launcher of the kernel of a walk plan, once per call."""

    def __init__(self, cell: CellSpec, plan: WalkPlan, sizes: CallSizes, device: int) -> None:
        super().__init__(cell, plan, device)
        self._grid = plan.blocks(*sizes), 1, 1

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        self.kernel(self._grid, arguments)


_SENTINEL = 0xFF  # each byte of a word that no kernel publishes


class ScanLauncher(ResidentLauncher):
    """Launcher of the kernel of a scan plan, once per call.

    Blocks that wait for each other are as many as have room.
    """

    _plan: ScanPlan

    def __init__(self, cell: CellSpec, plan: ScanPlan, sizes: CallSizes, device: int) -> None:
        super().__init__(cell, plan, device)
        self._groups = plan.groups(*sizes)

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        struct = struct_around("ScanArguments", type(arguments))
        if self._plan.sequential:
            self.kernel((self._groups, 1, 1), struct(arguments, None))
            return
        tiles = self._groups * self._plan.tiles(steps)
        records = like.new_empty(tiles * self._plan.tile_record_bytes, dtype=torch.uint8)
        fill_bytes(records, _SENTINEL)
        blocks = min(tiles, self.kernel.resident or tiles)
        self.kernel((blocks, 1, 1), struct(arguments, records.data_ptr()))


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


# Makes the launcher of a plan, of the kind that it is registered for, on the device of a number.
MakeLauncher = Callable[[CellSpec, Any, CallSizes, int], Launcher]

LAUNCHERS: dict[str, MakeLauncher] = {
    "block": TiledLauncher,
    "cluster": TiledLauncher,
    "grid": GridLauncher,
    "walk": WalkLauncher,
    "scan": ScanLauncher,
    "alternating": AlternatingLauncher,
    "step": StepLauncher,
}


def register_launcher(kind: str, make: MakeLauncher) -> None:
    """Add the launcher of a kind of plan that `codegen.cuda.kinds.register_kind` added.

    Raises:
        ValueError: the kind has a launcher.
    """
    if kind in LAUNCHERS:
        raise ValueError(f"there is a launcher for the kind {kind!r}")
    LAUNCHERS[kind] = make


def unregister_launcher(kind: str) -> None:
    """Remove a launcher that `register_launcher` added.

    Raises:
        KeyError: the kind has no launcher.
    """
    del LAUNCHERS[kind]


def launcher_of(cell: CellSpec, plan: KernelPlan, sizes: CallSizes, device: int) -> Launcher:
    """Return the launcher of a plan of one direction; a `PlanError` if its kind has none."""
    if plan.kind not in LAUNCHERS:
        raise PlanError(
            f"{plan.kind} plan of {cell.name}",
            "a kind of plan without a launcher",
            f"one of {', '.join(kind for kind in LAUNCHERS if kind in variants())}",
            f"register_launcher({plan.kind!r}, …) of rnnc.runtime.cuda.launchers",
        )
    return LAUNCHERS[plan.kind](cell, plan, sizes, device)
