"""The constraints on a cluster of blocks that keeps a head's R in its registers."""

from __future__ import annotations

import math

from ....cellspec.cell import CellSpec
from ....constrint import Model
from ....constrint.language.expression import Expression
from ...derive import derive
from ...layout import layout_of, states_read_before
from ...shape import Direction, Shape
from ..copies import WORD_BYTES, unweighted_bytes, warp_pitch
from ..limits import Limits
from ..matrix_sources import matrix_sources
from ..mma import (
    EXCHANGE_ROW_BYTES,
    GROUP_UNITS,
    ITEM_UNITS,
    K_TILE_BYTES,
    K_TILE_REGISTERS,
    RESERVED_SHARED,
    TILE_M,
    TILE_N,
    WARP,
)
from ..refusal import Margin
from ..stage_bytes import number_bytes
from ..stage_tables import StageTables, stage_tables
from . import staged
from .registers import (
    TENTHS,
    cluster_backward_registers,
    cluster_forward_registers,
    stage_registers,
    staged_margin,
)

SIZES = (2, 3, 4, 6, 8, 12, 16)  # blocks per cluster
# Where none of these has a plan: without a margin of registers a block has room for few units, and
# some heads divide well among so many blocks alone. No such kernel has been timed.
FURTHER_SIZES = (5, 7, 9, 10, 11, 13, 14, 15)
SPLITS = (1, 2, 4)  # warps that share K in the forward
BACKWARD_WARPS = (4, 8, 16)  # per block in the backward
_AHEAD = (8, 6, 4, 3, 2)  # steps
# A block's units are a multiple of this: half a tile, where gates interleave, or a whole tile.
_GRANULE = {"forward": GROUP_UNITS, "backward": TILE_M}
_MOST_ITEMS = 2  # per thread of the backward
_NAMED_BARRIERS = 15  # per block, besides the one that __syncthreads uses
_PART_BYTES = 256  # partial sums of half a tile, which one warp writes for another
_SUM_BYTES = 4  # of a partial sum that a block sends
_BARRIER_BYTES = 16  # two mbarriers


def cluster_problem(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    together: int = 1,
    margin: Margin = "kept",
) -> Model:
    """The constraints on a cluster of blocks that keep all of a head's R in their registers.

    Args:
        cell: the cell.
        shape: sizes and dtype; batch and steps do not matter.
        limits: the GPU.
        direction: which of the two kernels.
        together: the preferred number of blocks per SM.
        margin: of registers; see `Margin`.

    Returns:
        A model with the variables `cluster` (blocks), `units` (per block), `splits` (warps that
        share K in the forward), `warps` (per block), `blocks` (per SM), `ahead` (steps between a
        load and its use), `matrix` (registers per thread that hold R), `registers` (per thread) and
        `shared` (bytes per block), and some that follow from these. Of the solutions with the same
        `cluster` and `splits` or `warps`, the first is the best.

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
    cluster = m.int("cluster", SIZES if margin == "kept" else sorted(SIZES + FURTHER_SIZES))
    m.int("splits", SPLITS if direction == "forward" else (1,))
    most = 2 if shape.dtype == "float32" else 4  # splitting float32 needs more registers
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
    m.require(cluster * (units - granule) < dim, "no more units per block than needed")
    m.require((cluster - 1) * units < dim, "no block without units")
    m.require(warps <= threads, "threads per block")
    if direction == "forward":
        working, stage, buffers = _forward(m, cell, shape)
    else:
        working, stage, buffers = _backward(m, cell, shape)
    m.require(
        shared == buffers + ahead * stage + _BARRIER_BYTES,
        "two exchange buffers, the loads ahead, and mbarriers",
    )
    if margin != "kept":
        working = working - staged_margin(direction, shape)
    m.require(TENTHS * (registers - matrix) >= working, "registers per thread")
    m.require(TENTHS * (registers - matrix) < working + TENTHS, "no more registers than needed")
    # A scheduler has a quarter of an SM's registers; the one with the most warps decides.
    quarter = m.int("quarter", 1, math.ceil(threads / 4))
    m.require(4 * quarter >= warps, "warps per scheduler")
    m.require(4 * (quarter - 1) < warps, "no more warps per scheduler than needed")
    m.require(4 * WARP * quarter * blocks * registers <= limits.registers, "registers of an SM")
    m.require(
        blocks * (shared + RESERVED_SHARED) <= limits.shared_per_multiprocessor,
        "shared memory of an SM",
    )
    return m


_Sizes = tuple[Expression | int, Expression | int, Expression | int]


def _forward(m: Model, cell: CellSpec, shape: Shape) -> _Sizes:
    """The forward's own constraints: a warp owns 8 units, and `splits` warps share K."""
    layout, pointwise = layout_of(cell), derive(cell)
    tables = stage_tables(pointwise, "forward")
    sources, element = matrix_sources(pointwise, tables), shape.element_bytes
    cluster, splits, units, warps = (m[n] for n in ("cluster", "splits", "units", "warps"))
    all_k_tiles = math.ceil(shape.head_dim * element / K_TILE_BYTES)
    tiles = sum(math.ceil(source.pairs / 2) for source in sources)
    k_tiles = m.int("k_tiles", 1, all_k_tiles + 1)
    buffer = m.int("buffer", 1, 2**20)  # k-tiles
    groups = m.int("groups", 1, math.ceil(shape.head_dim / GROUP_UNITS))

    m.require(units == GROUP_UNITS * groups, "a warp owns 8 units")
    m.require(warps == splits * groups, "warps per block")
    m.require(
        (splits > 1).implies(groups <= _NAMED_BARRIERS), "a barrier for the warps that share K"
    )
    m.require(k_tiles * splits >= all_k_tiles, "all of K")
    m.require((k_tiles - 1) * splits < all_k_tiles, "no more of K than needed")
    m.require(
        (splits > 1).implies((splits - 1) * k_tiles < all_k_tiles), "no warp without a part of K"
    )
    if tables and staged.odd_sources(tables):
        _share_tiles(m, tables, tiles)
    else:
        m.require(m["matrix"] == K_TILE_REGISTERS * tiles * k_tiles, "R in registers")
    # The buffer holds the units of all blocks and the k-tiles of all warps.
    taken, read = cluster * units * element, splits * k_tiles
    m.require(K_TILE_BYTES * buffer >= taken, "a buffer for all units")
    m.require(buffer >= read, "a buffer for all of K")
    m.require(
        (K_TILE_BYTES * (buffer - 1) < taken) | (buffer == read), "a buffer no larger than needed"
    )
    group = warp_pitch(len(layout.input_gates), GROUP_UNITS, shape.dtype)
    row = warp_pitch(1, GROUP_UNITS, shape.dtype)
    others = unweighted_bytes(cell, row, WORD_BYTES * GROUP_UNITS)
    inputs = groups * TILE_N * (group + others)
    parts = groups * (splits - 1) * (2 * max(tiles, 1) * _PART_BYTES)
    buffers = 2 * (len(sources) * TILE_N * K_TILE_BYTES) * buffer + parts
    if tables:
        buffers = buffers + staged.barrier_bytes(tables) + staged.part_bytes(tables) * cluster
        buffers = buffers + staged.part_bytes(tables) * groups
        if staged.odd_sources(tables):
            buffers = buffers + m["shared_tiles"]
        at_once = staged.sums_at_once(tables, shape.dtype)
        working = cluster_forward_registers(pointwise, shape, at_once)
        return working + stage_registers(tables, shape), inputs, buffers
    # The same numbers as kNumAccumulators in the kernel: independent accumulators hide an
    # instruction's latency.
    many, few = 4 * max(tiles, 1), 2 * max(tiles, 1)
    sums = m.int("sums", sorted({few, many}))
    if element == 4:
        m.require(sums == many, "two accumulators per sum")
    elif tiles > 1:
        m.require(
            (tiles * k_tiles > 8).implies(sums == few), "few accumulators if a warp holds much of R"
        )
        m.require(
            (tiles * k_tiles <= 8).implies(sums == many),
            "many accumulators if a warp holds little of R",
        )
    else:
        m.require(sums == many, "four accumulators per tile")
    return cluster_forward_registers(pointwise, shape, sums), inputs, buffers


def _share_tiles(m: Model, tables: StageTables, tiles: int) -> None:
    """Two warps share a tile of each source with an odd number of gates; a last group has none to
    share with, and half of its tile is padding.
    """
    units, groups, splits, k_tiles, matrix = (
        m[n] for n in ("units", "groups", "splits", "k_tiles", "matrix")
    )
    most = max(staged.shared_tile_bytes(tables, of) for of in SPLITS)
    shared = m.int("shared_tiles", 0, most * _NAMED_BARRIERS)  # bytes
    halves = 2 * tiles - staged.odd_sources(tables)
    alone = units % TILE_M == GROUP_UNITS
    m.require(groups <= 2 * _NAMED_BARRIERS, "a barrier for the warps that share tiles")
    m.require(
        alone | (matrix == K_TILE_REGISTERS // 2 * halves * k_tiles), "R in registers, by halves"
    )
    m.require(alone.implies(matrix == K_TILE_REGISTERS * tiles * k_tiles), "R in registers")
    m.require(alone.implies(shared == 0), "no shared tiles")
    for of in SPLITS:
        taken = staged.shared_tile_bytes(tables, of)
        m.require(
            alone | (splits == of).implies(2 * shared == taken * groups),
            f"the parts of tiles that {2 * of} warps share",
        )


def _backward(m: Model, cell: CellSpec, shape: Shape) -> _Sizes:
    """The backward's own constraints: warps share the rows of R and the items of the block."""
    layout, pointwise = layout_of(cell), derive(cell)
    tables = stage_tables(pointwise, "backward")
    sources, k_tile = matrix_sources(pointwise, tables), K_TILE_BYTES // shape.element_bytes
    cluster, units, warps = (m[n] for n in ("cluster", "units", "warps"))
    most = max((s.pairs for s in sources), default=1) * (shape.head_dim + TILE_M)
    slots = m.int("slots", 1, shape.head_dim)  # tiles per warp
    items = m.int("items", 1, _MOST_ITEMS)
    row = m.int("row", 1, 2**20)

    m.require(TILE_M * slots * warps >= cluster * units, "every tile has a warp")
    m.require(TILE_M * (slots - 1) * warps < cluster * units, "no more tiles per warp than needed")
    m.require(ITEM_UNITS * items * warps >= units, "every unit has a warp")
    m.require(ITEM_UNITS * (items - 1) * warps < units, "no more units per warp than needed")
    k_tiles: Expression | int = 0
    for source, pairs, *_ in sources:
        found = m.int(f"k_tiles_{source}", 1, math.ceil(most / k_tile))
        m.require(k_tile * found >= pairs * units, f"all of K for {source}")
        m.require(k_tile * (found - 1) < pairs * units, f"no more of K for {source}")
        k_tiles = found + k_tiles
    m.require(m["matrix"] == K_TILE_REGISTERS * k_tiles * slots, "R in registers")
    m.require(2 * row >= k_tiles, "a row of the buffer for all of K")
    m.require(
        2 * row <= k_tiles + (1 if sources else 2), "a row of the buffer no longer than needed"
    )
    step = warp_pitch(len(pointwise.saved), ITEM_UNITS, shape.dtype)
    # The states before each step that the backward reads, and the gradients of all states after it.
    reads = sum(states_read_before(pointwise)) + len(layout.states)
    step += reads * warp_pitch(1, ITEM_UNITS, shape.dtype)
    shares = len(sources) * TILE_N * _SUM_BYTES * cluster * units
    buffers = 2 * TILE_N * EXCHANGE_ROW_BYTES * row + 2 * shares
    inputs: Expression | int = units * (TILE_N * step // ITEM_UNITS)
    if cell.inputs:
        rows = units * (TILE_N * warp_pitch(1, ITEM_UNITS, shape.dtype) // ITEM_UNITS)
        words = WORD_BYTES * WARP * warps * items
        inputs = inputs + unweighted_bytes(cell, rows, words)
    if tables:
        item_groups = m.int("item_groups", 1, shape.head_dim)  # of the block, at most its warps
        m.require(ITEM_UNITS * item_groups <= units, "every group has units")
        m.require(
            (item_groups == warps) | (ITEM_UNITS * item_groups == units), "every group has a part"
        )
        m.require(item_groups <= warps, "every part has a warp")
        buffers = buffers + staged.barrier_bytes(tables)
        buffers = buffers + staged.part_bytes(tables) * cluster
        buffers = buffers + staged.part_bytes(tables) * item_groups
        inputs = inputs + number_bytes(tables, TILE_N) * warps
    # The same numbers as kNumAccumulators in the kernel.
    at_once = staged.sources_at_once(tables) if tables else len(sources)
    sums = m.int("sums", 0, 4 * at_once * (shape.head_dim + TILE_M))
    if shape.element_bytes == 4:
        m.require(sums == 4 * at_once * slots, "two accumulators per sum")
    else:
        m.require((slots == 1).implies(sums == 4 * at_once), "four accumulators per tile")
        m.require(
            slots.isin([2, 3]).implies(sums == 2 * at_once * slots), "two accumulators per tile"
        )
        m.require((slots > 3).implies(sums == at_once * slots), "one accumulator per tile")
    working = cluster_backward_registers(pointwise, shape, slots, sums, items)
    if tables:
        working = working + stage_registers(tables, shape)
    return working, inputs, buffers
