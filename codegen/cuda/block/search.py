"""Plans of one block a head and a few batch rows: the constraints, stated once, and the best."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ....constrint import Model, Solution, Unsatisfiable
from ....constrint.language.expression import Expression
from ...derive import derive
from ...layout import layout_of
from ...shape import DIRECTIONS, Direction, Dtype, PlanError, Save, Shape
from ..constants import constants_for
from ..estimate import StepEstimate
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
from ..refusal import (
    Clash,
    first_clash,
    largest_beyond_gaps,
    largest_dim,
    refusal,
    refuse_float64,
)
from .cost import block_step
from .plan import BlockPlan
from .registers import backward_registers, forward_registers

_ROWS = (4, 8)  # batch rows of a block, that of fewer registers first
_AHEAD_ENOUGH = 4  # steps: fewer do not cover a round trip to memory


def block_problem(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: int,
    together: int = 1,
) -> Model:
    """The constraints on a block that keeps all of a head's R in its registers.

    Args:
        cell: the cell.
        shape: sizes and dtype; batch and steps do not matter.
        limits: the GPU.
        direction: which of the two kernels.
        rows: batch rows of a block, 4 or 8.
        together: how many blocks want to share a multiprocessor.

    Returns:
        A model whose first solution is the best, with the variables `blocks` (an SM), `groups` (of
        8 units, a warp), `ahead` (steps that data is sent for before its use), `warps`, `tiles` (of
        16 rows of R, a warp), `matrix` (registers of a thread that hold R), `registers` (of a
        thread) and `shared` (bytes of a block).

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.block.search import block_problem
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> m = block_problem(rnnc.cells.lstm, Shape(12, 64), limits_of("H200"), "forward", rows=4)
        >>> print(m.solve()["warps"])
        4
    """
    layout, pointwise = layout_of(cell), derive(cell)
    dim, forward = shape.head_dim, direction == "forward"
    chunk = K_TILE_BYTES // shape.element_bytes
    m = Model()
    # In the order of preference: together, blocks hide each other's waiting; in each, fewer warps
    # meet sooner; and data is sent for as early as there is room.
    most = 2 if shape.dtype == "float32" else 4  # its splitting needs room to be scheduled
    blocks = m.int("blocks", sorted(range(1, most + 1), key=lambda b: (-min(b, together), b)))
    groups = m.int("groups", [2, 1] if forward else [2])
    ahead = m.int("ahead", [8, 6, 4, 3, 2])
    warps = m.int("warps", 1, limits.threads_per_block // WARP)
    tiles = m.int("tiles", 0, len(layout.pair_gates) + len(layout.sources))
    matrix = m.int("matrix", 0, 2**20)
    registers = m.int("registers", 1, limits.registers_per_thread)
    shared = m.int("shared", 0, limits.shared_per_block)

    m.require(warps * groups * GROUP_UNITS >= dim, "every unit has a warp")
    m.require((warps - 1) * groups * GROUP_UNITS < dim, "no warp without units")
    if forward:
        of_source = []
        for source, pairs in zip(layout.sources, layout.source_pairs, strict=True):
            state = layout.states[source]
            found = m.int(f"tiles_{state}", 1, pairs)
            m.require(2 * found >= groups * pairs, f"all rows of R that multiply {state}")
            m.require(2 * found <= groups * pairs + 1, f"less than a tile of padding for {state}")
            of_source.append(found)
        m.require(tiles == sum(of_source), "tiles of a warp")
        chunks = math.ceil(dim / chunk)
        m.require(matrix == K_TILE_REGISTERS * chunks * tiles, "R lies in registers")
        exchange = len(layout.sources) * _exchange_bytes(chunks)
        stage = _copy_bytes(len(layout.input_gates), shape, rows)
        working: Expression | int = forward_registers(pointwise, shape, groups, tiles, rows)
    else:
        padded = TILE_M * math.ceil(dim / TILE_M)
        chunks = sum(math.ceil(pairs * padded / chunk) for pairs in layout.source_pairs)
        m.require(tiles == len(layout.sources), "tiles of a warp")
        m.require(matrix == K_TILE_REGISTERS * chunks, "R lies in registers")
        exchange = _exchange_bytes(max(chunks, 1))
        stage = _copy_bytes(len(pointwise.saved), shape, rows)
        stage += 2 * len(layout.states) * _copy_bytes(1, shape, rows)
        working = backward_registers(pointwise, shape, rows)
    m.require(shared == 2 * exchange + ahead * stage, "two exchange buffers and what is read ahead")
    m.require(registers >= matrix + working, "registers of a thread")
    m.require(
        WARP * warps * blocks * registers <= limits.registers, "registers of a multiprocessor"
    )
    m.require(
        blocks * (shared + RESERVED_SHARED) <= limits.shared_per_multiprocessor,
        "shared memory of a multiprocessor",
    )
    return m


def _exchange_bytes(chunks: int) -> int:
    """A buffer through which a block's warps give each other the columns of a product."""
    return TILE_N * _rounded(chunks * K_TILE_BYTES, EXCHANGE_ROW_BYTES)


def _copy_bytes(elements: int, shape: Shape, rows: int) -> int:
    """Bytes of a step's rows in shared memory; padding avoids bank conflicts."""
    unit = elements * shape.element_bytes
    return rows * (_rounded(shape.head_dim * unit, 128) + _rounded(4 * unit, 16))


def _rounded(number: int, multiple: int) -> int:
    return multiple * math.ceil(number / multiple)


def block_kernels(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    save: Save = "gates",
    tf32: bool = False,
) -> tuple[BlockPlan, ...]:
    """The block plan of one direction: the one with the batch rows that are best for both.

    Args:
        cell: the cell.
        shape: sizes and dtype.
        limits: the GPU.
        direction: which of the two kernels.
        save: what the forward saves for the backward.
        tf32: whether float32 products may round to tf32.

    Raises:
        PlanError: R does not fit one block, or the dtype has no matrix instructions; names the
            constraint that binds and the largest head dim that fits.
    """
    refuse_float64("block", cell, shape)
    candidates = []
    # Where every block has a multiprocessor of its own, 4 rows are never worse.
    alone = shape.heads * math.ceil(shape.batch / _ROWS[0]) <= limits.multiprocessors
    for rows in _ROWS[:1] if alone else _ROWS:
        # With 8 rows no column of a product is idle; with 4 there are twice as many blocks, each
        # with half the pointwise work.
        with suppress(Unsatisfiable):
            candidates.append([_kernel(cell, shape, limits, d, rows) for d in DIRECTIONS])
    if not candidates:
        raise _refusal(cell, shape, limits)
    best = min(candidates, key=lambda both: sum(kernel.nanoseconds for kernel in both))
    return (replace(best[DIRECTIONS.index(direction)], save=save, tf32=tf32),)


def _sizes(shape: Shape) -> Shape:
    """The shape as far as one block sees it."""
    return Shape(1, shape.head_dim, 1, 1, shape.dtype)


@lru_cache(maxsize=2048)
def _best(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction, rows: int, blocks: int
) -> Solution:
    """Sizes of one direction where `blocks` blocks want to share a multiprocessor."""
    m = block_problem(cell, shape, limits, direction, rows, blocks)
    m.require(m["ahead"] >= _AHEAD_ENOUGH, "data comes in time")
    with suppress(Unsatisfiable):
        return m.solve()
    return block_problem(cell, shape, limits, direction, rows, blocks).solve()


def _kernel(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction, rows: int
) -> BlockPlan:
    """The plan of a direction for a number of batch rows per block, with its estimate."""
    blocks = math.ceil(shape.heads * math.ceil(shape.batch / rows) / limits.multiprocessors)
    found = _best(cell, _sizes(shape), limits, direction, rows, min(blocks, 4))
    threads = WARP * found["warps"]
    kib = threads * found["matrix"] * 4 // 1024
    plan = BlockPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        binding=f"registers: {kib} KiB of {limits.registers // 256} KiB hold R",
        head_dim=shape.head_dim,
        rows=rows,
        warps=found["warps"],
        registers=limits.registers_for(threads * found["blocks"]),
        shared=found["shared"],
        unit_groups=found["groups"],
        ahead=found["ahead"],
        blocks_per_multiprocessor=found["blocks"],
        matrix_registers=found["matrix"],
    )
    step = block_step(derive(cell), shape, limits, plan, constants_for(limits))
    return replace(plan, estimate=StepEstimate.of(step))


def _clash(cell: CellSpec, shape: Shape, limits: Limits) -> Clash | None:
    """What stands in the way of a block."""
    return first_clash(lambda d: block_problem(cell, _sizes(shape), limits, d, _ROWS[0]))


def _refusal(cell: CellSpec, shape: Shape, limits: Limits) -> PlanError:
    clash, largest = _clash(cell, shape, limits), largest_block_dim(cell, shape.dtype, limits)
    wanted = "a cell with fewer gates and states: no head dim fits"
    return refusal("block", cell, shape, limits, clash, largest, wanted)


@lru_cache(maxsize=512)
def largest_block_dim(cell: CellSpec, dtype: Dtype, limits: Limits) -> int:
    """The largest head dim, a multiple of 8, whose R fits one block; 0 if none does."""

    def fits(dim: int) -> bool:
        return _clash(cell, Shape(1, dim, 1, 1, dtype), limits) is None

    return largest_dim(fits, low=0, high=8, step=8)


def largest_block_head(cell: CellSpec, dtype: Dtype, limits: Limits, heads: int) -> int:
    """The largest head dim, a multiple of 8, that has a block plan; 0 if none has one.

    Args:
        cell: the cell.
        dtype: of R and h.
        limits: the GPU.
        heads: they do not matter: no head waits for another.
    """
    first = largest_block_dim(cell, dtype, limits)
    return largest_beyond_gaps(
        first, lambda dim: _clash(cell, Shape(heads, dim, 1, 1, dtype), limits) is None
    )
