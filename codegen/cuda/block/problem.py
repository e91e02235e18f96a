"""The constraints on a block that keeps a head's R in its registers."""

from __future__ import annotations

import math

from ....cellspec.cell import CellSpec
from ....constrint import Model
from ....constrint.language.expression import Expression
from ...derive import derive
from ...layout import layout_of
from ...shape import Direction, Shape
from ..copies import WORD_BYTES, row_pitch, unweighted_bytes
from ..limits import Limits
from ..matrix_sources import matrix_sources
from ..mma import (
    EXCHANGE_ROW_BYTES,
    GROUP_UNITS,
    K_TILE_BYTES,
    K_TILE_REGISTERS,
    RESERVED_SHARED,
    SCHEDULERS,
    TILE_M,
    TILE_N,
    WARP,
)
from ..refusal import Margin
from ..stage_bytes import number_bytes, part_bytes
from ..stage_tables import stage_tables
from .plan import store_bytes
from .registers import STAGED_MARGINS, backward_registers, forward_registers

ROWS = (4, 8)  # batch rows per block; fewer rows take fewer registers


def block_problem(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: int,
    together: int = 1,
    margin: Margin = "kept",
) -> Model:
    """The constraints on a block that keeps all of a head's R in its registers.

    Args:
        cell: the cell.
        shape: sizes and dtype; batch and steps do not matter.
        limits: the GPU.
        direction: which of the two kernels.
        rows: batch rows per block, 4 or 8.
        together: the preferred number of blocks per SM.
        margin: of registers; see `Margin`.

    Returns:
        A model whose first solution is the best. Its variables are `blocks` (per SM), `groups` (of
        8 units, per warp), `ahead` (steps between a load and its use), `warps` (per block), `tiles`
        (of 16 rows of R, per warp), `matrix` (registers per thread that hold R), `registers` (per
        thread) and `shared` (bytes per block).

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.block.problem import block_problem
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> m = block_problem(rnnc.cells.lstm, Shape(12, 64), limits_of("H200"), "forward", rows=4)
        >>> print(m.solve()["warps"])
        4
    """
    layout, pointwise = layout_of(cell), derive(cell)
    tables = stage_tables(pointwise, direction)
    sources = matrix_sources(pointwise, tables)
    dim, forward = shape.head_dim, direction == "forward"
    k_tile = K_TILE_BYTES // shape.element_bytes
    m = Model()
    # The order of values is the order of preference: blocks that share an SM hide each other's
    # latency; fewer warps wait less at a barrier; early loads hide the latency of memory.
    most = 2 if shape.dtype == "float32" else 4  # splitting float32 needs more registers
    blocks = m.int("blocks", sorted(range(1, most + 1), key=lambda b: (-min(b, together), b)))
    groups = m.int("groups", [2, 1] if forward else [2])
    ahead = m.int("ahead", [8, 6, 4, 3, 2])
    warps = m.int("warps", 1, limits.threads_per_block // WARP)
    tiles = m.int("tiles", 0, sum(source.pairs for source in sources) + len(sources))
    matrix = m.int("matrix", 0, 2**20)
    registers = m.int("registers", 1, limits.registers_per_thread)
    shared = m.int("shared", 0, limits.shared_per_block)

    m.require(warps * groups * GROUP_UNITS >= dim, "every unit has a warp")
    m.require((warps - 1) * groups * GROUP_UNITS < dim, "no warp without units")
    if forward:
        of_source = []
        for source, pairs, *_ in sources:
            found = m.int(f"tiles_{source}", 1, pairs)
            m.require(2 * found >= groups * pairs, f"all rows of R that multiply {source}")
            m.require(2 * found <= groups * pairs + 1, f"less than a tile of padding for {source}")
            of_source.append(found)
        m.require(tiles == sum(of_source), "tiles per warp")
        k_tiles = math.ceil(dim / k_tile)
        m.require(matrix == K_TILE_REGISTERS * k_tiles * tiles, "R in registers")
        exchange = len(sources) * _exchange_bytes(k_tiles)
        stage = rows * row_pitch(len(layout.input_gates), dim, shape.dtype)
        working: Expression | int
        if tables:
            own = zip(of_source, sources, strict=True)
            at_once = m.int("tiles_at_once", 0, sum(source.pairs for source in sources))
            m.require(at_once == sum(t for t, s in own if s.at_once), "tiles of the widest stage")
            working = forward_registers(pointwise, shape, groups, at_once, rows)
        else:
            working = forward_registers(pointwise, shape, groups, tiles, rows)
    else:
        padded = TILE_M * math.ceil(dim / TILE_M)
        k_tiles = sum(math.ceil(source.pairs * padded / k_tile) for source in sources)
        m.require(tiles == len(sources), "tiles per warp")
        m.require(matrix == K_TILE_REGISTERS * k_tiles, "R in registers")
        exchange = _exchange_bytes(max(k_tiles, 1))
        stage = row_pitch(len(pointwise.saved), dim, shape.dtype)
        stage = rows * (stage + 2 * len(layout.states) * row_pitch(1, dim, shape.dtype))
        widest = sum(source.at_once for source in sources)
        working = backward_registers(pointwise, shape, rows, widest)
    loads: Expression | int = ahead * stage
    if cell.inputs:
        words = WORD_BYTES * GROUP_UNITS * rows * warps * groups
        others = unweighted_bytes(cell, rows * row_pitch(1, dim, shape.dtype), words)
        loads = loads + others * ahead
    if tables:
        loads = loads + warps * part_bytes(tables, rows) + ahead * number_bytes(tables, rows)
        loads = loads + store_bytes(tables, rows, dim, shape.dtype)
        # A block's warps get their registers in turns of one per scheduler.
        turns = m.int("turns", 1, math.ceil(limits.threads_per_block / WARP / SCHEDULERS))
        m.require(SCHEDULERS * turns >= warps, "every warp has a scheduler")
        m.require(SCHEDULERS * (turns - 1) < warps, "no turn without warps")
        held = WARP * SCHEDULERS * turns * blocks * registers
        m.require(held <= limits.registers, "registers of an SM, in turns of warps")
    m.require(shared == 2 * exchange + loads, "two exchange buffers and the loads ahead")
    working = working - STAGED_MARGINS[margin]
    m.require(registers >= matrix + working, "registers per thread")
    m.require(WARP * warps * blocks * registers <= limits.registers, "registers of an SM")
    m.require(
        blocks * (shared + RESERVED_SHARED) <= limits.shared_per_multiprocessor,
        "shared memory of an SM",
    )
    return m


def _exchange_bytes(k_tiles: int) -> int:
    """Bytes of a buffer through which a block's warps exchange the columns of a product."""
    return TILE_N * _rounded_up(k_tiles * K_TILE_BYTES, EXCHANGE_ROW_BYTES)


def _rounded_up(number: int, multiple: int) -> int:
    return multiple * math.ceil(number / multiple)
