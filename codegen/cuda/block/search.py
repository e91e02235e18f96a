"""The search for block plans."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ....constrint import Solution, Unsatisfiable
from ...request import PlanRequest
from ...shape import DIRECTIONS, Direction, Dtype, PlanError, Shape
from ..cost_inputs import CostInputs
from ..estimate import StepEstimate
from ..limits import Limits
from ..mma import WARP
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
from .problem import ROWS, block_problem

_AHEAD_ENOUGH = 4  # steps; fewer do not hide the latency of memory


def block_kernels(request: PlanRequest, direction: Direction) -> tuple[BlockPlan, ...]:
    """The block plan of one direction, with the number of batch rows that is best for both.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: R does not fit one block, or the dtype has no matrix instructions; names the
            constraint that binds and the largest head dim that fits.
    """
    cell, shape, limits = request.cell, request.shape, request.limits
    refuse_float64("block", cell, shape)
    candidates = []
    # With 8 rows all columns of a product are used. With 4 there are twice as many blocks, each
    # with half the pointwise work, which is never worse if every block has an SM of its own.
    alone = shape.heads * math.ceil(shape.batch / ROWS[0]) <= limits.multiprocessors
    for rows in ROWS[:1] if alone else ROWS:
        with suppress(Unsatisfiable):
            candidates.append([_kernel(cell, shape, limits, d, rows) for d in DIRECTIONS])
    if not candidates:
        raise _refusal(cell, shape, limits)
    best = min(candidates, key=lambda both: sum(kernel.nanoseconds for kernel in both))
    return (replace(best[DIRECTIONS.index(direction)], save=request.save, tf32=request.tf32),)


def block_tilings(request: PlanRequest, direction: Direction) -> tuple[BlockPlan, ...]:
    """One block plan for each number of batch rows, of units per warp, and of blocks that share an
    SM, for measurements: `block_kernels` gives one of them.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `block_kernels`.
    """
    cell, shape, limits = request.cell, request.shape, request.limits
    refuse_float64("block", cell, shape)
    found: dict[tuple[int, int, int], BlockPlan] = {}
    for rows in ROWS:
        problem = block_problem(cell, _sizes(shape), limits, direction, rows)
        for solution in problem.solutions():
            key = (rows, solution["groups"], solution["blocks"])
            if key not in found:  # the first loads earliest
                found[key] = _plan(cell, shape, limits, direction, rows, solution)
    if not found:
        raise _refusal(cell, shape, limits)
    return tuple(replace(plan, save=request.save, tf32=request.tf32) for plan in found.values())


def _sizes(shape: Shape) -> Shape:
    """The sizes that one block depends on."""
    return Shape(1, shape.head_dim, 1, 1, shape.dtype)


@lru_cache(maxsize=2048)
def _best(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction, rows: int, together: int
) -> Solution:
    """The sizes of one direction's kernel, with early loads if there is room."""
    m = block_problem(cell, shape, limits, direction, rows, together)
    m.require(m["ahead"] >= _AHEAD_ENOUGH, "loads hide the latency of memory")
    with suppress(Unsatisfiable):
        return m.solve()
    return block_problem(cell, shape, limits, direction, rows, together).solve()


def _kernel(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction, rows: int
) -> BlockPlan:
    """The plan of one direction for a number of batch rows per block."""
    blocks = math.ceil(shape.heads * math.ceil(shape.batch / rows) / limits.multiprocessors)
    found = _best(cell, _sizes(shape), limits, direction, rows, min(blocks, 4))
    return _plan(cell, shape, limits, direction, rows, found)


def _plan(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: int,
    found: Solution,
) -> BlockPlan:
    """The plan that a solution stands for, with its estimate."""
    plan = BlockPlan.of(
        found,
        shape,
        limits,
        direction,
        WARP * found["warps"],
        rows=rows,
        unit_groups=found["groups"],
    )
    step = block_step(CostInputs.of(cell, shape, limits), plan)
    return replace(plan, estimate=StepEstimate.of(step))


def _clash(cell: CellSpec, shape: Shape, limits: Limits) -> Clash | None:
    """The constraints that no block meets; None if there is a block plan."""
    return first_clash(lambda d: block_problem(cell, _sizes(shape), limits, d, ROWS[0]))


def _refusal(cell: CellSpec, shape: Shape, limits: Limits) -> PlanError:
    clash, largest = _clash(cell, shape, limits), largest_block_dim(cell, shape.dtype, limits)
    wanted = "a cell with fewer gates and states: no head dim fits"
    return refusal("block", cell, shape, limits, clash, largest, wanted)


def _fits(cell: CellSpec, dtype: Dtype, limits: Limits) -> Callable[[int], bool]:
    """A function that says whether there is a block plan for a head dim."""
    return lambda dim: _clash(cell, Shape(1, dim, 1, 1, dtype), limits) is None


@lru_cache(maxsize=512)
def largest_block_dim(cell: CellSpec, dtype: Dtype, limits: Limits) -> int:
    """The largest head dim, a multiple of 8, whose R fits one block; 0 if none does.

    It is found by halving; a larger head may fit beyond a gap.

    Args:
        cell: the cell.
        dtype: of R and h.
        limits: the GPU.
    """
    return largest_dim(_fits(cell, dtype, limits), low=0, high=8, step=8)


def largest_block_head(cell: CellSpec, dtype: Dtype, limits: Limits, heads: int) -> int:
    """The largest head dim, a multiple of 8, that has a block plan; 0 if none has one.

    Args:
        cell: the cell.
        dtype: of R and h.
        limits: the GPU.
        heads: they do not matter: no head waits for another.
    """
    return largest_beyond_gaps(largest_block_dim(cell, dtype, limits), _fits(cell, dtype, limits))
