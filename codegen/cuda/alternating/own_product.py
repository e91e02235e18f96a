"""The sizes of fused steps: kernels that multiply too."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ....cellspec.cell import CellSpec
from ...derive import Pointwise
from ...layout import layout_of
from ...shape import DIRECTIONS, Direction, Shape
from ..kernel_plan import MOST_BLOCKS
from ..limits import KIB, Limits
from ..mma import TILE_M, TILE_N
from ..stage_tables import StageTables, stage_tables
from .plan import OwnProduct

_WARPS = 8
_ROWS = (16, 32)  # batch rows per block, so that a thread has at most one item
# Bytes per block, of the 48 KiB that every kernel may use; the rest is for arguments.
_SHARED = 44 * KIB
# Per thread, for accumulators and loads on their way; with 128 in all, two blocks share an SM.
_REGISTERS = 96
_SPLITS = (1, 2, 4, 4)  # blocks that share K in the backward, by the number of pairs per source


def own_products(
    cell: CellSpec, shape: Shape, limits: Limits
) -> Iterator[dict[Direction, OwnProduct]]:
    """The sizes of fused steps by direction; none if the cell or the dtype cannot have them.

    Args:
        cell: a cell of one stage.
        shape: sizes and dtype.
        limits: the GPU.
    """
    layout = layout_of(cell)
    if shape.element_bytes != 2 or not layout.pair_gates:
        return
    pairs, sources = len(layout.pair_gates), len(layout.sources)
    # A backward block reads about one state's part of K, as much as a forward block reads.
    wanted = _SPLITS[min(max(layout.source_pairs), len(_SPLITS)) - 1]
    split = wanted if limits.cluster >= wanted else 1
    for rows in _ROWS:
        if math.ceil(shape.batch / rows) > MOST_BLOCKS:
            continue
        forward = _own_product(rows, 1, strips=pairs, received=0, spare=_REGISTERS, limits=limits)
        backward = _own_product(
            rows,
            split,
            strips=sources * split,
            received=sources * split,
            # Gradients of more than two states take additional registers.
            spare=_REGISTERS - 4 * max(0, len(layout.states) - 2),
            limits=limits,
        )
        if all(own.shared <= _SHARED and own.ahead > 0 for own in (forward, backward)):
            yield {"forward": forward, "backward": backward}


def staged_products(
    pointwise: Pointwise, shape: Shape, limits: Limits
) -> Iterator[dict[Direction, OwnProduct]]:
    """The same for a cell with stages: each kernel of a step multiplies what it needs first.

    There are none if a block would need all units of a head, or a kernel has nothing to multiply.

    Args:
        pointwise: the derived programs of the cell.
        shape: sizes and dtype.
        limits: the GPU.
    """
    strips: dict[Direction, list[int]] = {}
    for direction in DIRECTIONS:
        tables = stage_tables(pointwise, direction)
        assert tables is not None
        strips[direction] = _strips_of_kernels(tables)
        if tables.statistics or not all(strips[direction]):
            return
    for rows in _ROWS if shape.element_bytes == 2 else ():
        if math.ceil(shape.batch / rows) > MOST_BLOCKS:
            continue
        found = {
            direction: _own_product(rows, 1, max(counts), 0, _REGISTERS, limits)
            for direction, counts in strips.items()
        }
        if all(own.shared <= _SHARED and own.ahead > 0 for own in found.values()):
            yield found


def _strips_of_kernels(tables: StageTables) -> list[int]:
    """The strips of R that a block of each kernel multiplies: of its pairs, or of its sources."""
    forward, last = tables.direction == "forward", len(tables.stages)
    firsts = [first if forward or first else last for first in tables.first_stages]
    return [
        sum(len(s.pairs) if forward else 1 for s in tables.sources if s.stage == first)
        for first in firsts
    ]


def _own_product(
    rows: int, split: int, strips: int, received: int, spare: int, limits: Limits
) -> OwnProduct:
    """The sizes of one direction's kernel.

    Args:
        rows: batch rows per block.
        split: blocks per cluster.
        strips: strips of 8 rows of R per warp.
        received: strips of partial sums that a block receives from its cluster.
        spare: registers per thread for accumulators and loaded k-tiles.
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
    """The number of k-tiles to load ahead, by the registers left; more than 6 gain nothing."""
    # The same number as kNumAccumulators in the kernel.
    sums = 4 * strips * tiles * (2 if strips * tiles < 4 else 1)
    k_tile = 4 * strips + 8 * tiles
    return min(6, (registers - sums) // k_tile)
