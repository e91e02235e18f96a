"""The alternating plan of a cell, a shape and a GPU: who multiplies, and with which sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ....cellspec.cell import CellSpec
from ...derive import derive
from ...layout import layout_of
from ...shape import PlanError, Save, Shape
from ..limits import KIB, Limits
from .cost import library_nanoseconds, own_nanoseconds
from .plan import AlternatingPlan, OwnProduct

_WARPS = 8
_ROWS = (16, 32)  # batch rows of a block: an item a thread at most
_SHARED = 44 * KIB  # of the 48 that a kernel has without asking; some is for arguments
_REGISTERS = 96  # of a thread, for sums and what is on its way, of 128: two blocks share an SM
# Of a step, in all batch rows and heads, with some blocks' worth to spare.
_MOST_UNITS = 2**32 - 2**10
_MOST_TILES = 65535  # of batch rows: blocks of a launch along y
_SPLITS = (1, 2, 4, 4)  # blocks that share K of the backward, by the pairs of a source


def alternating_plan(
    cell: CellSpec, shape: Shape, limits: Limits, save: Save = "gates", tf32: bool = False
) -> AlternatingPlan:
    """The cheapest alternating plan of a cell; every head dim has one.

    The arguments are those of `block.block_plan`.

    Raises:
        PlanError: a step has more units than the kernels count in 32 bits.
    """
    plans = alternating_plans(cell, shape, limits, save, tf32)
    return min(plans, key=lambda plan: sum(plan.nanoseconds))


def alternating_plans(
    cell: CellSpec, shape: Shape, limits: Limits, save: Save = "gates", tf32: bool = False
) -> tuple[AlternatingPlan, ...]:
    """All alternating plans: with the library's product, and with such of its own as there are.

    The arguments are those of `block.block_plan`.
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
        if own:
            nanoseconds = own_nanoseconds(pointwise, shape, limits, own)
        else:
            nanoseconds = library_nanoseconds(pointwise, shape)
        return AlternatingPlan(
            arch=limits.arch,
            dtype=shape.dtype,
            own=own,
            nanoseconds=nanoseconds,
            tf32=tf32,
            save=save,
        )

    return (*map(plan, _own_products(cell, shape, limits)), plan(None))


def _own_products(cell: CellSpec, shape: Shape, limits: Limits) -> Iterator[OwnProduct]:
    """The sizes with which a step's kernel can multiply, for any head dim."""
    layout = layout_of(cell)
    if shape.element_bytes != 2 or not layout.pair_gates:
        return
    pairs, sources = len(layout.pair_gates), len(layout.sources)
    # K of the backward in parts of about a state each, which is what a forward's block takes in.
    wanted = _SPLITS[min(max(layout.source_pairs), len(_SPLITS)) - 1]
    split = wanted if limits.cluster >= wanted else 1
    for rows in _ROWS:
        if math.ceil(shape.batch / rows) > _MOST_TILES:
            continue
        strips = (pairs, sources * split)
        parts = [4 * 8 * rows * _WARPS * n for n in strips]
        shared = (parts[0], parts[1] + 4 * 8 * rows * sources * split)
        # The gradients of more than two states want registers of their own.
        spare = (_REGISTERS, _REGISTERS - 4 * max(0, len(layout.states) - 2))
        ahead = [_ahead(n, rows // 16, r) for n, r in zip(strips, spare, strict=True)]
        if max(shared) <= _SHARED and min(ahead) > 0:
            yield OwnProduct(
                rows=rows,
                warps=_WARPS,
                split=split,
                ahead=(ahead[0], ahead[1]),
                shared=shared,
                overlapped=limits.capability >= (9, 0),
            )


def _ahead(strips: int, tiles: int, registers: int) -> int:
    """How many chunks' words find registers beside the sums; more than 6 hide nothing more."""
    sums = 4 * strips * tiles * (2 if strips * tiles < 4 else 1)  # see kChains
    chunk = 4 * strips + 8 * tiles
    return min(6, (registers - sums) // chunk)
