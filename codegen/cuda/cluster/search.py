"""The search for cluster plans."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ....constrint import Solution
from ...request import PlanRequest
from ...shape import DIRECTIONS, Direction, Dtype, PlanError, Shape
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..limits import Limits
from ..mma import GROUP_UNITS, TILE_M, TILE_N, WARP
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
from .cost import cluster_start, cluster_step
from .plan import ClusterPlan
from .problem import FURTHER_SIZES, SIZES, cluster_problem


def cluster_kernels(
    request: PlanRequest, direction: Direction, *, exchanging: bool = False, close: bool = True
) -> tuple[ClusterPlan, ...]:
    """The cluster plans of one direction, the cheapest first.

    They differ in the number of blocks per cluster and in how warps share a product.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.
        exchanging: whether to refuse a cell whose blocks would exchange nothing.
        close: whether a kernel may go without a margin of registers; see `Tried`.

    Raises:
        PlanError: a direction has none; names the constraint that binds and the largest head dim
            that fits. Or the blocks would exchange nothing.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.cluster.search import cluster_kernels
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.request import PlanRequest
        >>> from rnnc.codegen.shape import Shape
        >>> request = PlanRequest(rnnc.cells.lstm, Shape(6, 128), limits_of("H200"))
        >>> best = cluster_kernels(request, "forward")[0]
        >>> best.cluster * best.units
        128
    """
    cell, shape = request.cell, request.shape
    refuse_float64("cluster", cell, shape)
    if exchanging and not cell.dense_pairs and not cell.has_stages:
        raise PlanError(
            f"cluster plan of {cell.name} for {shape}",
            "no dense recurrent matrix",
            "at least one dense recurrent matrix: the blocks of a cluster exchange its inputs",
            'variant="walk"',
        )
    tried = _tried(cell, request.limits, close=close)
    both = {d: _by_margins(tried, shape, d, request.tf32) for d in DIRECTIONS}
    if not all(both.values()):
        raise _refusal(tried, shape)
    return tuple(
        replace(kernel, save=request.save, tf32=request.tf32) for kernel in both[direction]
    )


def _tried(cell: CellSpec, limits: Limits, *, close: bool) -> Tried:
    """Return what is tried; more blocks per cluster spare what a spill would."""
    return Tried.of(cell, limits, close=close, spills=False)


def _by_margins(
    tried: Tried, shape: Shape, direction: Direction, tf32: bool
) -> tuple[ClusterPlan, ...]:
    """The plans of a direction with the first margin of registers that fits, the cheapest first."""
    cell, limits, margins = tried
    tries: list[tuple[Margin, tuple[int, ...]]] = [(margin, SIZES) for margin in margins]
    tries += [(margin, FURTHER_SIZES) for margin in margins if margin != "kept"]
    each = (_ranked(cell, shape, limits, direction, tf32, *of) for of in tries)
    return next(filter(None, each), ())


@lru_cache(maxsize=512)
def _ranked(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    tf32: bool,
    margin: Margin,
    sizes: tuple[int, ...],
) -> tuple[ClusterPlan, ...]:
    """The best plan for each cluster size and each way to share a product, the cheapest first."""
    inputs = CostInputs.of(cell, shape, limits, tf32)
    clusters = shape.heads * math.ceil(shape.batch / TILE_N)
    has_loops = inputs.pointwise.program(direction).has_loops
    found = []
    for size in sizes:
        together = min(math.ceil(clusters * size / limits.multiprocessors), 4)
        for best in _best(cell, _sizes(shape), limits, direction, size, together, margin):
            plan = ClusterPlan.of(
                best,
                shape,
                limits,
                direction,
                4 * WARP * best["quarter"],
                rows=TILE_N,
                cluster=best["cluster"],
                units=best["units"],
                splits=best["splits"],
            )
            if has_loops:
                plan = plan.for_resident_blocks(limits)
            start = cluster_start(inputs, plan)
            estimate = StepEstimate.of(cluster_step(inputs, plan), start)
            found.append(replace(plan, estimate=estimate))
    return tuple(sorted(found, key=lambda plan: plan.cost))


def _sizes(shape: Shape) -> Shape:
    """The sizes that one cluster depends on."""
    return Shape(1, shape.head_dim, 1, 1, shape.dtype)


@lru_cache(maxsize=4096)
def _best(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    size: int,
    together: int,
    margin: Margin,
) -> tuple[Solution, ...]:
    """The first solution for a cluster size and each way to share a product among warps."""
    if size > limits.cluster or size > shape.head_dim // GROUP_UNITS:
        return ()
    m = cluster_problem(cell, shape, limits, direction, together, margin)
    m.require(m["cluster"] == size, "the size asked for")
    share = m["splits" if direction == "forward" else "warps"]
    found: dict[int, Solution] = {}
    for solution in m.solutions(prefer=[share.smallest]):
        found.setdefault(solution[share.name], solution)
    return tuple(found.values())


def _clash(tried: Tried, shape: Shape) -> Clash | None:
    """The constraints that no cluster meets; None if there is a cluster plan."""
    (cell, limits, _), sizes = tried, _sizes(shape)
    return first_clash(
        tried, lambda d, margin: cluster_problem(cell, sizes, limits, d, margin=margin)
    )


def _refusal(tried: Tried, shape: Shape) -> PlanError:
    largest = largest_cluster_dim(tried, shape.dtype)
    if tried.limits.cluster < min(SIZES):
        wanted = "a GPU with clusters: compute capability 9.0 or later"
    else:
        wanted = "a cell with fewer gates and states: no head dim fits"
    # A head may be too small to share, or lie between two sizes that divide into whole tiles.
    above = range(TILE_M * (shape.head_dim // TILE_M + 1), largest + 1, TILE_M)
    larger = next(filter(_fits(tried, shape.dtype), above), 0)
    return refusal("cluster", tried, shape, _clash(tried, shape), largest, wanted, larger)


def _fits(tried: Tried, dtype: Dtype) -> Callable[[int], bool]:
    """A function that says whether there is a cluster plan for a head dim."""
    return lambda dim: _clash(tried, Shape(1, dim, 1, 1, dtype)) is None


@lru_cache(maxsize=512)
def largest_cluster_dim(tried: Tried, dtype: Dtype) -> int:
    """The largest head dim, a multiple of 16, whose R fits a cluster; 0 if none does.

    It is found by halving; a larger head may fit beyond a gap. R and h have the dtype.
    """
    fits = _fits(tried, dtype)
    if tried.limits.cluster < min(SIZES) or not fits(32):
        return 0
    return largest_dim(fits, low=32, high=64, step=TILE_M)


def largest_cluster_head(cell: CellSpec, dtype: Dtype, limits: Limits, heads: int) -> int:
    """The largest head dim, a multiple of 8, that has a cluster plan; 0 if none has one.

    The number of heads does not matter: no head waits for another.
    """
    if limits.cluster < min(SIZES):
        return 0
    of = _tried(cell, limits, close=True), dtype
    return largest_beyond_gaps(largest_cluster_dim(*of), _fits(*of))
