"""One direction of a fused plan, launched: a plan's type decides the shape of the grid."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.cuda.grid.plan import SLOT_CHUNK_BYTES, TILE_ROWS, GridPlan
from ...codegen.plan import CudaPlan, FusedPlan
from .arguments import grid_struct, pointer
from .launch import Kernel, load_kernel
from .launch_grid import MOST_BLOCKS, batch_tiles, blocks_of, launches

_WORD = 8  # bytes that are filled at once
_NOT_YET = -1  # such a word: 0xFF throughout, which no kernel publishes


class Sizes(NamedTuple):
    """T, B and N of a call."""

    steps: int
    batch: int
    heads: int


def run_fused(
    cell: CellSpec,
    plan: FusedPlan,
    arguments: ctypes.Structure,
    like: Tensor,
    sizes: Sizes,
    forward: bool,
) -> None:
    """Run one direction of a fused plan on torch's current stream.

    Args:
        cell: the cell.
        plan: its plan.
        arguments: of the direction.
        like: gives the device.
        sizes: of the call, none of them zero but the steps.
        forward: the direction.
    """
    name = "rnnc_forward" if forward else "rnnc_backward"
    kernel = load_kernel(cell, plan, name, like.device.index)
    if isinstance(plan, GridPlan):
        _run_grid(plan, kernel, arguments, like, sizes)
        return
    tiles = batch_tiles(plan, sizes.batch)
    if max(tiles, sizes.heads) <= MOST_BLOCKS:  # the arguments say already that it is one launch
        kernel(blocks_of(plan, name, sizes.heads, tiles), arguments)
        return
    given: Any = arguments  # a launch takes a copy of it
    for part in launches(plan, name, sizes.heads, tiles):
        given.first_tile, given.first_head = part.first_tile, part.first_head
        kernel(part.grid, arguments)


def _run_grid(
    plan: GridPlan, kernel: Kernel, arguments: ctypes.Structure, like: Tensor, sizes: Sizes
) -> None:
    exchanged, streams = buffer_bytes(plan, kernel.name, sizes)
    exchange = like.new_empty(exchanged // _WORD, dtype=torch.int64)
    streamed = like.new_empty(streams, dtype=torch.uint8)
    struct = grid_struct(type(arguments))
    for first, groups in turns(plan, sizes.batch):
        exchange.fill_(_NOT_YET)
        given = struct(arguments, exchange.data_ptr(), pointer(streamed), first)
        kernel((plan.kernels[kernel.name].blocks, groups, sizes.heads), given)


def turns(plan: GridPlan, batch: int) -> Iterator[tuple[int, int]]:
    """The launches of a grid plan: the first group of each, and how many groups it has."""
    groups = batch_tiles(plan, batch)
    for first in range(0, groups, plan.groups):
        yield first, min(plan.groups, groups - first)


def buffer_bytes(plan: GridPlan, name: str, sizes: Sizes) -> tuple[int, int]:
    """The sizes of a kernel's two buffers: for what its blocks exchange, and for what they stream.

    Through the first, blocks give each other what they computed. Its layout is [slot, head, tile of
    8 rows, chunk, 512 bytes]. A step has a slot of its own, so that nothing is overwritten while a
    launch runs; the launches of a batch share the buffer.

    From the second, a kernel streams what the chip cannot hold of R. A block's threads write their
    own share of it, packed, before their first step.
    """
    kernel, rows = plan.kernels[name], plan.rows
    groups = (sizes.batch + rows - 1) // rows  # as `batch_tiles`, which takes longer
    if groups > plan.groups:
        groups = plan.groups
    shared = sizes.heads * groups
    slot = shared * (rows // TILE_ROWS) * kernel.exchange_chunks * SLOT_CHUNK_BYTES
    return (sizes.steps or 1) * slot, shared * kernel.blocks * kernel.streamed_bytes


def recurrent_matrix(plan: CudaPlan, R: Tensor | None) -> Tensor | None:
    """R as a plan's backward reads it: (Gr, N, D out, D in), or transposed where blocks of a grid
    keep the rows of the transpose.
    """
    return R.mT.contiguous() if isinstance(plan, GridPlan) and R is not None else R
