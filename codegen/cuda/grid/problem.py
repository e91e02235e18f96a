"""The constraints on blocks of the whole GPU that share a head and exchange through L2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from ....cellspec.cell import CellSpec
from ....constrint import Model
from ....constrint.language.expression import Expression
from ...derive import derive
from ...shape import Direction, Shape
from ..limits import Limits
from ..matrix_sources import MatrixSource, matrix_sources
from ..mma import GROUP_UNITS, K_TILE_BYTES, K_TILE_REGISTERS, TILE_M, TILE_N, WARP
from ..refusal import Margin
from ..stage_tables import stage_tables
from .plan import RING_BYTES, GridPlan
from .registers import (
    STAGED_PARTS,
    STREAM_REGISTERS,
    WIDE_UNIT_GROUPS,
    backward_registers,
    forward_registers,
    product_registers,
    staged_margin,
    wide_padding_registers,
)

_TILE_BYTES = 4 * WARP * K_TILE_REGISTERS  # of R: a k-tile of a warp's tile
_GATHERED = 16  # vectors that a thread loads at once
_GATHERED_STREAMING = 8  # the same if a part of R is streamed
_FEWEST_SUMS = 4  # accumulators per thread
_WARPS = (8, 4, 12, 16, 6, 10)  # per block, in the order of preference
# If a part of R is streamed, fewer warps have fewer copies in flight, and more warps have fewer
# registers each. Blocks of larger clusters have more accumulators, and NVRTC spills.
_STREAMING_WARPS, _STREAMING_CLUSTER = 8, 2
_UNIT_GROUPS = (2, 1, 3, 4, 6, 8)  # per block, in the order of preference
_SPREAD_CLUSTER = 8  # a cluster size for which `Limits.resident` counts fewer SMs


class Rows(NamedTuple):
    """Division of a batch among groups, phases and tiles.

    Attributes:
        tiles: tiles of 8 batch rows per group of blocks.
        phases: parts of these tiles, which a step processes one after the other.
        groups: groups of blocks per head that run at the same time.
    """

    tiles: int = 1
    phases: int = 1
    groups: int = 1


def grid_problem(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: Rows,
    streams: bool = False,
    tf32: bool = False,
    margin: Margin = "kept",
) -> Model:
    """The constraints on blocks that share a head and exchange through L2.

    Args:
        cell: the cell, with at least one dense gate.
        shape: heads, head dim and dtype; batch and steps do not matter.
        limits: the GPU.
        direction: which of the two kernels.
        rows: how the batch is cut.
        streams: whether each step may stream the part of R that the chip cannot hold; if not, all
            of R is on the chip.
        tf32: whether float32 is multiplied as TF32.
        margin: of registers; see `Margin`.

    Returns:
        A model with the variables `cluster` (blocks that share K), `unit_groups` (groups of 8 units
        per block), `blocks` (per group), `warps`, `k_tiles` (k-tiles per warp), `kept` (k-tiles per
        warp in registers), `streamed` (k-tiles per warp from global memory), `tiles` (tiles of 16
        rows of R per block), `items` (units of a batch row per thread), `matrix` (registers per
        thread that hold R), `registers` (per thread) and `shared` (bytes per block).

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.grid.problem import Rows, grid_problem
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> h200 = limits_of("H200")
        >>> m = grid_problem(rnnc.cells.lstm, Shape(1, 768), h200, "forward", Rows(groups=2))
        >>> print(m.solve()["blocks"])
        48
    """
    pointwise = derive(cell, early_sums=GridPlan.early_sums)
    forward = direction == "forward"
    tables = stage_tables(pointwise, direction)
    products = matrix_sources(pointwise, tables)
    dim_k_tiles = math.ceil(shape.head_dim * shape.element_bytes / K_TILE_BYTES)
    sources, pairs = len(products), sum(source.pairs for source in products)
    phase_tiles = rows.tiles // rows.phases
    group_rows, phase_rows = TILE_N * rows.tiles, TILE_N * phase_tiles
    m = Model()
    # Clusters share K only in the backward, where K is longer by the number of gates. They need one
    # phase: with more, a block could send partial sums while the last phase's are still read.
    shares = not forward and rows.phases == 1
    clusters = [c for c in (1, 2, 4, 8, 16) if c <= limits.cluster] if shares else [1]
    cluster = m.int("cluster", clusters)
    unit_groups = m.int("unit_groups", _UNIT_GROUPS)
    warps = m.int("warps", [w for w in _WARPS if WARP * w <= limits.threads_per_block])
    blocks = m.int("blocks", 1, limits.multiprocessors)
    k_tiles = m.int("k_tiles", 1, 512)
    kept = m.int("kept", 0 if streams else 1, 32)
    streamed = m.int("streamed", 0, 512 if streams else 0)
    streaming = m.int("streaming", [0, 1] if streams else [0])
    tiles = m.int("tiles", 1, 64)
    items = m.int("items", 1, 8)
    matrix = m.int("matrix", 0, limits.registers_per_thread)
    registers = m.int("registers", 1, limits.registers_per_thread)
    shared = m.int("shared", 0, limits.shared_per_block)

    units = GROUP_UNITS * unit_groups
    m.require(blocks % cluster == 0, "clusters are whole")
    m.require(blocks * units >= shape.head_dim, "every unit has a block")
    m.require((blocks - cluster) * units < shape.head_dim, "no cluster without units")
    m.require(
        shape.heads * rows.groups * blocks <= limits.resident(1),
        "all blocks are on the chip at once",
    )
    m.require(
        (cluster >= 4).implies(
            shape.heads * rows.groups * blocks <= limits.resident(_SPREAD_CLUSTER)
        ),
        "all clusters are on the chip at once",
    )
    m.require(WARP * warps * items >= group_rows * units, "every unit of a batch row has a thread")
    m.require(
        WARP * warps * (items - 1) < group_rows * units, "no more items per thread than needed"
    )
    if forward:
        each = m.int("each", 1, 256)  # k-tiles of a source per warp
        m.require(each * warps >= dim_k_tiles, "every k-tile has a warp")
        m.require((each - 1) * warps < dim_k_tiles, "no more k-tiles per warp than needed")
        m.require(k_tiles == sources * each, "k-tiles per warp")
        m.require(kept <= each, "k-tiles in registers")
        of_source = [each] * sources
        halves: list[Expression] = [unit_groups * source.pairs for source in products]
        width = pairs if pairs <= 2 else 4 * math.ceil(pairs / 4)
        work = 2 * 4 * phase_rows * width * warps * (units + 1)
        elsewhere = each - kept
        working, each_item = forward_registers(pointwise, shape, tables, tf32)
    else:
        of_source = []
        for name, count, *_ in products:
            own = m.int(f"k_tiles_{name}", 1, 512)
            m.require(
                own * warps * cluster >= count * dim_k_tiles, f"every k-tile of {name} has a warp"
            )
            m.require(
                (own - 1) * warps * cluster < count * dim_k_tiles,
                f"no more k-tiles of {name} per warp than needed",
            )
            of_source.append(own)
        m.require(k_tiles == sum(of_source), "k-tiles per warp")
        m.require(kept <= k_tiles, "k-tiles in registers")
        halves = [unit_groups * cluster]
        pitch = phase_rows + 4  # the padding avoids bank conflicts
        several = m.int("several", [0, 1])
        m.require(
            (several == 1).implies(cluster >= 2), "partial sums go to other blocks of a cluster"
        )
        m.require((several == 0).implies(cluster == 1), "a single block sends no partial sums")
        work = 2 * 4 * pitch * sources * TILE_M * warps * tiles
        work += several * (2 * 4 * phase_rows * sources * GROUP_UNITS * cluster * unit_groups + 16)
        elsewhere = k_tiles - kept
        working, each_item = backward_registers(pointwise, shape, tables, tf32)
    each_item = math.ceil(STAGED_PARTS[margin] * each_item)
    working -= staged_margin(shape, tf32, margin)
    counts = []
    for number, half in enumerate(halves):
        own = m.int(f"tiles_{number}", 1, 64)
        m.require(2 * own >= half, f"all rows of R, {number}")
        m.require(2 * own <= half + 1, f"less than a tile of padding, {number}")
        counts.append(own)
    m.require(tiles == sum(counts), "tiles per block")
    all_tiles: Expression | int
    at_once = [source.at_once for source in products]  # the sums of one stage are in registers
    if not forward:
        all_tiles = sum(at_once) * tiles
    elif all(at_once):
        all_tiles = tiles
    else:
        all_tiles = sum(count for count, widest in zip(counts, at_once, strict=True) if widest)
    gathered = m.int("gathered", 1, _GATHERED)
    fewer = _GATHERED // phase_tiles - _GATHERED_STREAMING // phase_tiles
    vectors = _GATHERED // phase_tiles - fewer * streaming
    most: Expression = k_tiles if margin == "kept" else _k_tiles_at_once(m, products, of_source)
    m.require((gathered == vectors) | (gathered == most), "vectors that a thread gathers at once")
    m.require(gathered <= most, "no more vectors than k-tiles")
    each_vector, each_sum = product_registers(shape, phase_tiles)
    # If there are few tiles, each has several accumulators in turn.
    sums = m.int("sums", _FEWEST_SUMS, 512)
    m.require(sums >= phase_tiles * all_tiles, "an accumulator for each tile")
    m.require(
        (sums == phase_tiles * all_tiles) | (sums == _FEWEST_SUMS),
        "no more accumulators than needed",
    )
    m.require(matrix == K_TILE_REGISTERS * kept * tiles, "R in registers")
    if streams:
        m.require(streamed <= elsewhere, "only k-tiles beyond the registers are streamed")
        m.require(
            (streaming == 1).implies(streamed >= 1),
            "a plan that streams streams at least one k-tile",
        )
        m.require(
            (streaming == 0).implies(streamed == 0),
            "a plan that does not stream streams no k-tile",
        )
        m.require(
            (streaming == 1).implies(warps == _STREAMING_WARPS), "warps per block that streams"
        )
        m.require(
            (streaming == 1).implies(cluster <= _STREAMING_CLUSTER), "cluster sizes that stream"
        )
    needed = matrix + working + each_vector * gathered + each_sum * sums + each_item * items
    needed += STREAM_REGISTERS * streaming
    if padding := wide_padding_registers(shape, tf32):
        wide = m.int("wide", [0, 1])
        m.require((unit_groups >= WIDE_UNIT_GROUPS).implies(wide == 1), "a block of many units")
        m.require((unit_groups < WIDE_UNIT_GROUPS).implies(wide == 0), "a block of few units")
        needed += padding * wide
    m.require(registers == needed, "registers per thread")
    # A scheduler has a quarter of an SM's registers; the one with the most warps decides.
    quarter = m.int("quarter", 1, math.ceil(max(_WARPS) / 4))
    m.require(4 * quarter >= warps, "warps per scheduler")
    m.require(4 * (quarter - 1) < warps, "no more warps per scheduler than needed")
    threads = 4 * WARP * quarter
    m.require(threads * registers <= limits.registers, "registers of an SM")
    more = registers + K_TILE_REGISTERS * tiles
    m.require(
        (elsewhere >= 1).implies(
            (more > limits.registers_per_thread) | (threads * more > limits.registers)
        ),
        "shared memory holds only what registers cannot",
    )
    work += RING_BYTES * warps * streaming
    in_shared = elsewhere - streamed
    m.require(shared == work + _TILE_BYTES * warps * tiles * in_shared, "R in shared memory")
    if streams:
        m.require(
            (streamed >= 1).implies(shared + _TILE_BYTES * warps * tiles > limits.shared_per_block),
            "only what shared memory cannot hold is streamed",
        )
    return m


def _k_tiles_at_once(
    m: Model, products: Sequence[MatrixSource], k_tiles: Sequence[Expression]
) -> Expression:
    """The k-tiles per warp of the stage that has the most: those of one stage are gathered at once.

    Args:
        m: the model.
        products: the sources of all stages.
        k_tiles: per warp of each of them.
    """
    of_stage: dict[int, Expression | int] = {}
    for product, own in zip(products, k_tiles, strict=True):
        of_stage[product.stage] = own + of_stage.get(product.stage, 0)
    most = m.int("most_k_tiles", 1, 512)
    for stage, count in of_stage.items():
        m.require(most >= count, f"k-tiles of stage {stage}")
    m.require(reduce(or_, [most == count for count in of_stage.values()]), "k-tiles of one stage")
    return most
