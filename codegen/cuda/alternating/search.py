"""The alternating plan of a cell, a shape and a GPU: who multiplies, and with which sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ....cellspec.cell import CellSpec
from ...derive import derive
from ...layout import layout_of
from ...shape import Direction, PlanError, Save, Shape
from ..constants import constants_for
from ..estimate import StepEstimate
from ..limits import KIB, Limits
from ..mma import TILE_M, TILE_N
from .cost import alternating_step
from .plan import AlternatingPlan, OwnProduct

_WARPS = 8
_ROWS = (16, 32)  # batch rows of a block: an item a thread at most
_SHARED = 44 * KIB  # of the 48 that a kernel has without asking; some is for arguments
_REGISTERS = 96  # of a thread, for sums and what is on its way, of 128: two blocks share an SM
# Units per step over all batch rows and heads, with room for a few blocks.
_MOST_UNITS = 2**32 - 2**10
_MOST_TILES = 65535  # of batch rows: blocks of a launch along y
_SPLITS = (1, 2, 4, 4)  # blocks that share K of the backward, by the pairs of a source


def alternating_kernels(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    save: Save = "gates",
    tf32: bool = False,
) -> tuple[AlternatingPlan, ...]:
    """The alternating plans of one direction; every head dim has one.

    First those whose step's kernel multiplies, then the one with the matrix library's product.

    Args:
        cell: the cell.
        shape: sizes and dtype.
        limits: the GPU.
        direction: which of the two directions.
        save: what the forward saves for the backward.
        tf32: whether float32 products may round to tf32.

    Raises:
        PlanError: a step has more units than the kernels count in 32 bits.
    """
    units = shape.batch * shape.heads * shape.head_dim
    if units > _MOST_UNITS:
        raise PlanError(
            f"alternating plan of {cell.name} for {shape}",
            f"{units} units per step: batch * heads * head dim",
            f"at most {_MOST_UNITS}: the kernels count units in 32 bits",
            "scan on parts of the batch",
        )
    pointwise = derive(cell)

    def plan(own: OwnProduct | None) -> AlternatingPlan:
        plan = AlternatingPlan(
            direction=direction,
            arch=limits.arch,
            dtype=shape.dtype,
            own=own,
            tf32=tf32,
            save=save,
        )
        step = alternating_step(pointwise, shape, limits, plan, constants_for(limits))
        return replace(plan, estimate=StepEstimate.of(step))

    return (*(plan(both[direction]) for both in _own_products(cell, shape, limits)), plan(None))


def _own_products(
    cell: CellSpec, shape: Shape, limits: Limits
) -> Iterator[dict[Direction, OwnProduct]]:
    """The sizes with which a step's kernels can multiply, for any head dim, by direction."""
    layout = layout_of(cell)
    if shape.element_bytes != 2 or not layout.pair_gates:
        return
    pairs, sources = len(layout.pair_gates), len(layout.sources)
    # The backward's K in parts of about one state each, as much as a forward's block reads.
    wanted = _SPLITS[min(max(layout.source_pairs), len(_SPLITS)) - 1]
    split = wanted if limits.cluster >= wanted else 1
    for rows in _ROWS:
        if math.ceil(shape.batch / rows) > _MOST_TILES:
            continue
        forward = _own_product(rows, 1, strips=pairs, received=0, spare=_REGISTERS, limits=limits)
        backward = _own_product(
            rows,
            split,
            strips=sources * split,
            received=sources * split,
            # The gradients of more than two states need registers of their own.
            spare=_REGISTERS - 4 * max(0, len(layout.states) - 2),
            limits=limits,
        )
        if all(own.shared <= _SHARED and own.ahead > 0 for own in (forward, backward)):
            yield {"forward": forward, "backward": backward}


def _own_product(
    rows: int, split: int, strips: int, received: int, spare: int, limits: Limits
) -> OwnProduct:
    """The sizes of one direction's kernel.

    Args:
        rows: batch rows per block.
        split: blocks per cluster.
        strips: of R per warp.
        received: strips of partial sums that a block receives from its cluster.
        spare: registers per thread for accumulators and loaded chunks.
        limits: the GPU.
    """
    return OwnProduct(
        rows=rows,
        warps=_WARPS,
        split=split,
        ahead=_ahead(strips, rows // TILE_M, spare),
        shared=4 * TILE_N * rows * (_WARPS * strips + received),
        overlapped=limits.capability >= (9, 0),
    )


def _ahead(strips: int, tiles: int, registers: int) -> int:
    """How many chunks' words find registers beside the sums; more than 6 hide nothing more."""
    sums = 4 * strips * tiles * (2 if strips * tiles < 4 else 1)  # see kChains
    chunk = 4 * strips + 8 * tiles
    return min(6, (registers - sums) // chunk)
