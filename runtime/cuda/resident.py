"""Launches of a resident plan: one kernel for all steps of a direction."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.cuda.block.plan import BlockPlan
from ...codegen.cuda.cluster.plan import ClusterPlan
from ...codegen.cuda.grid.plan import GridPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.mma import K_TILE_BYTES, TILE_N
from .arguments import grid_struct, pointer
from .launch import Kernel, load_kernel
from .launch_grid import MOST_BLOCKS, batch_tiles, blocks_of, launches

_WORD = 8  # bytes that are filled at once
_SENTINEL = -1  # such a word: 0xFF throughout, which no kernel publishes


class Sizes(NamedTuple):
    """T, B and N of a call."""

    steps: int
    batch: int
    heads: int


def run_resident(
    cell: CellSpec,
    plan: KernelPlan,
    arguments: ctypes.Structure,
    like: Tensor,
    sizes: Sizes,
) -> None:
    """Run one direction on torch's current stream.

    Args:
        cell: the cell.
        plan: a resident plan, of the direction.
        arguments: of the direction.
        like: gives the device.
        sizes: of the call; only `steps` may be 0.
    """
    kernel = load_kernel(cell, plan, f"rnnc_{plan.direction}", like.device.index)
    if isinstance(plan, GridPlan):
        _run_grid(plan, kernel, arguments, like, sizes)
        return
    assert isinstance(plan, BlockPlan | ClusterPlan)
    tiles = batch_tiles(plan, sizes.batch)
    if max(tiles, sizes.heads) <= MOST_BLOCKS:  # the arguments already say that it is one launch
        kernel(blocks_of(plan, sizes.heads, tiles), arguments)
        return
    given: Any = arguments  # a launch copies it
    for part in launches(plan, sizes.heads, tiles):
        given.first_tile, given.first_head = part.first_tile, part.first_head
        kernel(part.grid, arguments)


def _run_grid(
    plan: GridPlan, kernel: Kernel, arguments: ctypes.Structure, like: Tensor, sizes: Sizes
) -> None:
    exchanged, streams = buffer_bytes(plan, sizes)
    exchange = like.new_empty(exchanged // _WORD, dtype=torch.int64)
    streamed = like.new_empty(streams, dtype=torch.uint8)
    struct = grid_struct(type(arguments))
    for first, groups in waves(plan, sizes.batch):
        exchange.fill_(_SENTINEL)
        given = struct(arguments, exchange.data_ptr(), pointer(streamed), first)
        kernel((plan.blocks, groups, sizes.heads), given)


def waves(plan: GridPlan, batch: int) -> Iterator[tuple[int, int]]:
    """The launches of a grid plan: the first group of each, and how many groups it has."""
    groups = batch_tiles(plan, batch)
    for first in range(0, groups, plan.groups):
        yield first, min(plan.groups, groups - first)


def buffer_bytes(plan: GridPlan, sizes: Sizes) -> tuple[int, int]:
    """The sizes of a grid kernel's two buffers: for what its blocks exchange, and what they stream.

    Through the first, blocks give each other what they computed. Its layout is [step, head, tile of
    8 rows, chunk, 512 bytes]. Each step has a region of its own, so nothing is overwritten while a
    launch runs; the launches of a batch share the buffer.

    From the second, a kernel streams the part of R that does not fit on the chip. A block's threads
    write their own share of it, packed, before their first step.
    """
    rows = plan.rows
    groups = (sizes.batch + rows - 1) // rows  # as `batch_tiles`, which takes longer
    if groups > plan.groups:
        groups = plan.groups
    shared = sizes.heads * groups
    region = shared * (rows // TILE_N) * plan.exchange_k_tiles * TILE_N * K_TILE_BYTES
    return (sizes.steps or 1) * region, shared * plan.blocks * plan.streamed_bytes


def recurrent_matrix(plan: KernelPlan, R: Tensor | None) -> Tensor | None:
    """R as a plan's backward reads it: (Gr, N, D out, D in), or transposed where blocks of a grid
    keep the rows of the transpose.
    """
    return R.mT.contiguous() if isinstance(plan, GridPlan) and R is not None else R
