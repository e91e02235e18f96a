"""The constraints on a cluster of blocks that share a head and 8 batch rows, stated once."""

from __future__ import annotations

import math

from ....cellspec.cell import CellSpec
from ....constrint import Model
from ....constrint.language.expression import Expression
from ...derive import derive
from ...layout import layout_of, states_read_before
from ...shape import Direction, Shape
from ..limits import Limits
from ..mma import (
    EXCHANGE_ROW_BYTES,
    GROUP_UNITS,
    K_TILE_BYTES,
    K_TILE_REGISTERS,
    RESERVED_SHARED,
    TILE_M,
    TILE_N,
    WARP,
)
from .registers import TENTHS, cluster_backward_registers, cluster_forward_registers

SIZES = (2, 3, 4, 6, 8, 12, 16)  # blocks of a cluster
SPLITS = (1, 2, 4)  # warps of the forward that share K
BACKWARD_WARPS = (4, 8, 16)  # of a block of the backward
_AHEAD = (8, 6, 4, 3, 2)  # steps
# Units: half a tile, whose gates interleave; a tile.
_GRANULE = {"forward": GROUP_UNITS, "backward": TILE_M}
_ITEM_UNITS = 4  # of a warp of the backward at a time, with all batch rows
_MOST_ITEMS = 2
_NAMED_BARRIERS = 15  # of a block, beside the one of all its threads
_PART_BYTES = 256  # of a tile, that a warp leaves for another
_SUM_BYTES = 4
_BARRIER_BYTES = 16  # two mbarriers


def cluster_problem(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction, together: int = 1
) -> Model:
    """The constraints on a cluster of blocks that keep all of a head's R in their registers.

    Args:
        cell: the cell.
        shape: sizes and dtype; batch and steps do not matter.
        limits: the GPU.
        direction: which of the two kernels.
        together: how many blocks want to share a multiprocessor.

    Returns:
        A model with the variables `cluster` (blocks), `units` (of a block), `splits` (warps that
        share K, forward), `warps`, `blocks` (an SM), `ahead` (steps that data is sent for before
        its use), `matrix` (registers of a thread that hold R), `registers` (of a thread) and
        `shared` (bytes of a block), and some that these follow from. Of its solutions for a
        cluster and splits or warps, the first is the best.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.cluster.problem import cluster_problem
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> m = cluster_problem(rnnc.cells.lstm, Shape(3, 256), limits_of("H200"), "forward")
        >>> m.require(m["cluster"] == 8, "asked for")
        >>> print(m.solve()["units"])
        32
    """
    dim, granule = shape.head_dim, _GRANULE[direction]
    m = Model()
    cluster = m.int("cluster", SIZES)
    m.int("splits", SPLITS if direction == "forward" else (1,))
    most = 2 if shape.dtype == "float32" else 4  # its splitting needs room to be scheduled
    blocks = m.int("blocks", sorted(range(1, most + 1), key=lambda b: (-min(b, together), b)))
    ahead = m.int("ahead", _AHEAD)
    units = m.int("units", granule, granule * math.ceil(dim / granule))
    threads = limits.threads_per_block // WARP
    warps = m.int("warps", 1, threads) if direction == "forward" else m.int("warps", BACKWARD_WARPS)
    matrix = m.int("matrix", 0, 2**20)
    registers = m.int("registers", 1, limits.registers_per_thread)
    shared = m.int("shared", 0, limits.shared_per_block)

    m.require(cluster <= limits.cluster, "blocks of a cluster")
    m.require(units % granule == 0, "whole tiles of units")
    m.require(cluster * units >= dim, "every unit has a block")
    m.require(cluster * (units - granule) < dim, "no more units a block than needed")
    m.require((cluster - 1) * units < dim, "no block without units")
    m.require(warps <= threads, "threads of a block")
    if direction == "forward":
        working, bytes_of_step, buffers = _forward(m, cell, shape)
    else:
        working, bytes_of_step, buffers = _backward(m, cell, shape)
    m.require(
        shared == buffers + ahead * bytes_of_step + _BARRIER_BYTES,
        "buffers that take turns, what is read ahead, and mbarriers",
    )
    m.require(TENTHS * (registers - matrix) >= working, "registers of a thread")
    m.require(TENTHS * (registers - matrix) < working + TENTHS, "no more registers than needed")
    # Its four quarters get as many registers each as the one with the most warps.
    quarter = m.int("quarter", 1, math.ceil(threads / 4))
    m.require(4 * quarter >= warps, "warps of a quarter")
    m.require(4 * (quarter - 1) < warps, "no more warps of a quarter than needed")
    m.require(
        4 * WARP * quarter * blocks * registers <= limits.registers, "registers of a multiprocessor"
    )
    m.require(
        blocks * (shared + RESERVED_SHARED) <= limits.shared_per_multiprocessor,
        "shared memory of a multiprocessor",
    )
    return m


_Sizes = tuple[Expression | int, Expression | int, Expression | int]


def _forward(m: Model, cell: CellSpec, shape: Shape) -> _Sizes:
    """What only the forward has: warps own 8 units each, and `splits` of them share K."""
    layout, pointwise = layout_of(cell), derive(cell)
    sources, element = len(layout.sources), shape.element_bytes
    cluster, splits, units, warps = (m[n] for n in ("cluster", "splits", "units", "warps"))
    all_chunks = math.ceil(shape.head_dim * element / K_TILE_BYTES)
    tiles = sum(math.ceil(pairs / 2) for pairs in layout.source_pairs)
    chunks = m.int("chunks", 1, all_chunks + 1)
    buffer = m.int("buffer", 1, 2**20)  # chunks
    groups = m.int("groups", 1, math.ceil(shape.head_dim / GROUP_UNITS))

    m.require(units == GROUP_UNITS * groups, "a warp owns eight units")
    m.require(warps == splits * groups, "warps of a block")
    m.require((splits > 1).implies(groups <= _NAMED_BARRIERS), "a barrier for those who share K")
    m.require(chunks * splits >= all_chunks, "all of K")
    m.require((chunks - 1) * splits < all_chunks, "no more of K than needed")
    m.require((splits > 1).implies((splits - 1) * chunks < all_chunks), "no warp without K")
    m.require(m["matrix"] == K_TILE_REGISTERS * tiles * chunks, "R lies in registers")
    # The buffer holds the units of all blocks, and the chunks of all warps.
    taken, read = cluster * units * element, splits * chunks
    m.require(K_TILE_BYTES * buffer >= taken, "a buffer for all units")
    m.require(buffer >= read, "a buffer for all of K")
    m.require(
        (K_TILE_BYTES * (buffer - 1) < taken) | (buffer == read), "a buffer no larger than needed"
    )
    inputs = groups * TILE_N * _copy_pitch(len(layout.input_gates), GROUP_UNITS, shape)
    parts = groups * (splits - 1) * (2 * max(tiles, 1) * _PART_BYTES)
    buffers = 2 * (sources * TILE_N * K_TILE_BYTES) * buffer + parts
    # As `kNumAccumulators` of the forward: independent accumulators hide an instruction's latency.
    many, few = 4 * max(tiles, 1), 2 * max(tiles, 1)
    sums = m.int("sums", sorted({few, many}))
    if element == 4:
        m.require(sums == many, "sums, and products to add to them")
    elif tiles > 1:
        m.require((tiles * chunks > 8).implies(sums == few), "fewer sums beside much of R")
        m.require((tiles * chunks <= 8).implies(sums == many), "more sums beside little of R")
    else:
        m.require(sums == many, "four sums of a tile")
    return cluster_forward_registers(pointwise, shape, sums), inputs, buffers


def _backward(m: Model, cell: CellSpec, shape: Shape) -> _Sizes:
    """What only the backward has: warps share the rows of all units, and the own units' items."""
    layout, pointwise = layout_of(cell), derive(cell)
    sources, chunk = len(layout.sources), K_TILE_BYTES // shape.element_bytes
    cluster, units, warps = (m[n] for n in ("cluster", "units", "warps"))
    most = max(layout.source_pairs, default=1) * (shape.head_dim + TILE_M)
    slots = m.int("slots", 1, shape.head_dim)  # tiles of a warp
    items = m.int("items", 1, _MOST_ITEMS)
    row = m.int("row", 1, 2**20)

    m.require(TILE_M * slots * warps >= cluster * units, "every tile has a warp")
    m.require(TILE_M * (slots - 1) * warps < cluster * units, "no more tiles a warp than needed")
    m.require(_ITEM_UNITS * items * warps >= units, "every unit has a warp")
    m.require(_ITEM_UNITS * (items - 1) * warps < units, "no more units a warp than needed")
    chunks: Expression | int = 0
    for source, pairs in zip(layout.sources, layout.source_pairs, strict=True):
        found = m.int(f"chunks_{layout.states[source]}", 1, math.ceil(most / chunk))
        m.require(chunk * found >= pairs * units, f"all of K for {layout.states[source]}")
        m.require(chunk * (found - 1) < pairs * units, f"no more of K for {layout.states[source]}")
        chunks = found + chunks
    m.require(m["matrix"] == K_TILE_REGISTERS * chunks * slots, "R lies in registers")
    m.require(2 * row >= chunks, "a row of the buffer for all of K")
    m.require(
        2 * row <= chunks + (1 if sources else 2), "a row of the buffer no longer than needed"
    )
    step = _copy_pitch(len(pointwise.saved), _ITEM_UNITS, shape)
    # The states that it reads before each step, and the gradients of all after it.
    reads = sum(states_read_before(pointwise)) + len(layout.states)
    step += reads * _copy_pitch(1, _ITEM_UNITS, shape)
    shares = sources * TILE_N * _SUM_BYTES * cluster * units
    buffers = 2 * TILE_N * EXCHANGE_ROW_BYTES * row + 2 * shares
    inputs = units * (TILE_N * step // _ITEM_UNITS)
    # As `kNumAccumulators` of the backward.
    sums = m.int("sums", 0, 4 * sources * (shape.head_dim + TILE_M))
    if shape.element_bytes == 4:
        m.require(sums == 4 * sources * slots, "sums, and products to add to them")
    else:
        m.require((slots == 1).implies(sums == 4 * sources), "four sums of a tile")
        m.require(slots.isin([2, 3]).implies(sums == 2 * sources * slots), "two sums of a tile")
        m.require((slots > 3).implies(sums == sources * slots), "one sum of a tile")
    working = cluster_backward_registers(pointwise, shape, slots, sums, items)
    return working, inputs, buffers


def _copy_pitch(elements: int, units: int, shape: Shape) -> int:
    """A row of some neighbouring units in shared memory; the padding keeps banks apart."""
    span = elements * units * shape.element_bytes
    if not elements:
        return 0
    return 16 if span <= 16 else 32 * math.ceil(span / 32) + 16
