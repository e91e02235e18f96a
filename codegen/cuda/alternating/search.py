"""The search for alternating plans: which kernel multiplies, and with which sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ....cellspec.cell import CellSpec
from ...layout import layout_of
from ...request import PlanRequest
from ...shape import Direction, PlanError, Shape
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..kernel_plan import MOST_BLOCKS
from ..limits import KIB, Limits
from ..mma import TILE_M, TILE_N
from ..stage_tables import stage_tables
from .cost import alternating_start, alternating_step
from .plan import AlternatingPlan, OwnProduct
from .staged_plan import StagedAlternatingPlan

_WARPS = 8
_ROWS = (16, 32)  # batch rows per block, so that a thread has at most one item
# Bytes per block, of the 48 KiB that every kernel may use; the rest is for arguments.
_SHARED = 44 * KIB
# Per thread, for accumulators and loads on their way; with 128 in all, two blocks share an SM.
_REGISTERS = 96
# Units per step over all batch rows and heads, less a margin for a few blocks.
_MOST_UNITS = 2**32 - 2**10
_SPLITS = (1, 2, 4, 4)  # blocks that share K in the backward, by the number of pairs per source


def alternating_kernels(request: PlanRequest, direction: Direction) -> tuple[AlternatingPlan, ...]:
    """The alternating plans of one direction; every head dim has one.

    First those with fused steps, then the one with the matrix library's product. A cell with stages
    has the latter alone.

    Args:
        request: what the plans are asked for.
        direction: which of the two directions.

    Raises:
        PlanError: a step has more units than the kernels count in 32 bits.
    """
    cell, shape, limits = request.cell, request.shape, request.limits
    units = shape.batch * shape.heads * shape.head_dim
    if units > _MOST_UNITS:
        raise PlanError(
            f"alternating plan of {cell.name} for {shape}",
            f"{units} units per step: batch * heads * head dim",
            f"at most {_MOST_UNITS}: the kernels count units in 32 bits",
            "scan on parts of the batch",
        )
    inputs = CostInputs.of(cell, shape, limits, request.tf32)

    def estimated(plan: AlternatingPlan) -> AlternatingPlan:
        start = alternating_start(inputs, plan)
        return replace(plan, estimate=StepEstimate.of(alternating_step(inputs, plan), start))

    tables = stage_tables(inputs.pointwise, direction)
    if tables is not None:
        staged = StagedAlternatingPlan(
            direction=direction,
            arch=limits.arch,
            dtype=shape.dtype,
            tf32=request.tf32,
            save=request.save,
            first_stages=tables.first_stages,
            by_head=bool(tables.statistics),
        )
        return (estimated(staged),)
    library = AlternatingPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        tf32=request.tf32,
        save=request.save,
    )
    owns = (both[direction] for both in _own_products(cell, shape, limits))
    return (*(estimated(replace(library, own=own)) for own in owns), estimated(library))


def _own_products(
    cell: CellSpec, shape: Shape, limits: Limits
) -> Iterator[dict[Direction, OwnProduct]]:
    """The sizes of fused steps by direction; none if the cell or the dtype cannot have them."""
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
