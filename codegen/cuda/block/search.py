"""The search for block plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ....constrint import Solution, Unsatisfiable
from ...request import PlanRequest
from ...shape import DIRECTIONS, Direction, Dtype, PlanError, Shape
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..limits import Limits
from ..mma import WARP
from ..refusal import (
    Clash,
    Margin,
    Tried,
    first_clash,
    largest_beyond_gaps,
    largest_dim,
    refusal,
    refuse_float64,
)
from .cost import block_start, block_step
from .plan import BlockPlan
from .problem import ROWS, block_problem

_AHEAD_ENOUGH = 4  # steps; fewer do not hide the latency of memory


def block_kernels(
    request: PlanRequest, direction: Direction, *, close: bool = True, spills: bool = True
) -> tuple[BlockPlan, ...]:
    """The block plan of one direction, with the number of batch rows that is best for both.

    Args:
        request: what the plan is asked for.
        direction: which of the two kernels.
        close: whether a kernel may go without a margin of registers; see `Tried`.
        spills: whether one that may go without the margin may have too few registers.

    Raises:
        PlanError: R does not fit one block, or the dtype has no matrix instructions; names the
            constraint that binds and the largest head dim that fits.
    """
    refuse_float64("block", request.cell, request.shape)
    tried = Tried.of(request.cell, request.limits, close=close, spills=spills)
    candidates = []
    for margins in tried.in_turn():
        for rows in ROWS:
            both = [_plans(request, d, rows, margins) for d in DIRECTIONS]
            if all(both):
                candidates.append([min(plans, key=lambda plan: plan.cost) for plans in both])
        if candidates:
            best = min(candidates, key=lambda both: sum(plan.cost for plan in both))
            return (best[DIRECTIONS.index(direction)],)
    raise _refusal(tried, request.shape)


def _plans(
    request: PlanRequest, direction: Direction, rows: int, margins: Sequence[Margin]
) -> list[BlockPlan]:
    """The plans of a direction for so many batch rows per block, by the first margin that fits."""
    shape, limits = request.shape, request.limits
    blocks = math.ceil(shape.heads * math.ceil(shape.batch / rows) / limits.multiprocessors)
    for margin in margins:
        sizes = _sizes(shape), limits, direction, rows, min(blocks, 4)
        if found := _best(request.cell, *sizes, margin):
            return [_plan(request, direction, rows, each) for each in found]
    return []


def block_tilings(request: PlanRequest, direction: Direction) -> tuple[BlockPlan, ...]:
    """One block plan for each number of batch rows, of units per warp, and of blocks that share an
    SM, for measurements: `block_kernels` gives one of them.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.

    Raises:
        PlanError: as `block_kernels`.
    """
    block_kernels(request, direction, close=False)  # raises if there is none
    found: dict[tuple[int, int, int], BlockPlan] = {}
    sizes = _sizes(request.shape)
    for rows in ROWS:
        problem = block_problem(request.cell, sizes, request.limits, direction, rows)
        for solution in problem.solutions():
            key = (rows, solution["groups"], solution["blocks"])
            if key not in found:  # the first loads earliest
                found[key] = _plan(request, direction, rows, solution)
    return tuple(found.values())


def _sizes(shape: Shape) -> Shape:
    """The sizes that one block depends on."""
    return Shape(1, shape.head_dim, 1, 1, shape.dtype)


@lru_cache(maxsize=2048)
def _best(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: int,
    together: int,
    margin: Margin,
) -> tuple[Solution, ...]:
    """The sizes of one direction's kernel, with early loads if there is room.

    Two groups of units per warp if they fit: fewer warps meet sooner. In float32, whose functions
    take longer, one group may be faster, so there are two solutions.
    """
    found: list[Solution] = []
    for groups in (2, 1) if direction == "forward" else (2,):
        if found and shape.dtype != "float32":
            break
        for early in (True, False):
            m = block_problem(cell, shape, limits, direction, rows, together, margin)
            m.require(m["groups"] == groups, "the units asked for")
            if early:
                m.require(m["ahead"] >= _AHEAD_ENOUGH, "loads hide the latency of memory")
            with suppress(Unsatisfiable):
                found.append(m.solve())
                break
    return tuple(found)


def _plan(request: PlanRequest, direction: Direction, rows: int, found: Solution) -> BlockPlan:
    """The plan that a solution stands for, with its estimate."""
    cell, shape, limits, tf32 = request.cell, request.shape, request.limits, request.tf32
    plan = BlockPlan.of(
        found,
        shape,
        limits,
        direction,
        WARP * found["warps"],
        rows=rows,
        unit_groups=found["groups"],
    )
    inputs = CostInputs.of(cell, shape, limits, tf32)
    estimate = StepEstimate.of(block_step(inputs, plan), block_start(inputs, plan))
    return replace(plan, estimate=estimate, save=request.save, tf32=tf32)


def _clash(tried: Tried, shape: Shape) -> Clash | None:
    """The constraints that no block meets; None if there is a block plan."""
    cell, limits, _ = tried
    rows, sizes = ROWS[0], _sizes(shape)
    return first_clash(
        tried, lambda d, margin: block_problem(cell, sizes, limits, d, rows, margin=margin)
    )


def _refusal(tried: Tried, shape: Shape) -> PlanError:
    largest = largest_block_dim(tried, shape.dtype)
    wanted = "a cell with fewer gates and states: no head dim fits"
    return refusal("block", tried, shape, _clash(tried, shape), largest, wanted)


def _fits(tried: Tried, dtype: Dtype) -> Callable[[int], bool]:
    """A function that says whether there is a block plan for a head dim."""
    return lambda dim: _clash(tried, Shape(1, dim, 1, 1, dtype)) is None


@lru_cache(maxsize=512)
def largest_block_dim(tried: Tried, dtype: Dtype) -> int:
    """The largest head dim, a multiple of 8, whose R fits one block; 0 if none does.

    It is found by halving; a larger head may fit beyond a gap. R and h have the dtype.
    """
    return largest_dim(_fits(tried, dtype), low=0, high=8, step=8)


def largest_block_head(cell: CellSpec, dtype: Dtype, limits: Limits, heads: int) -> int:
    """The largest head dim, a multiple of 8, that has a block plan; 0 if none has one.

    The number of heads does not matter: no head waits for another.
    """
    of = Tried.of(cell, limits, close=True), dtype
    return largest_beyond_gaps(largest_block_dim(*of), _fits(*of))
