"""Plans of a cluster of blocks a head and 8 batch rows: all that fit, the cheapest first."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ....constrint import Solution
from ...derive import derive
from ...shape import DIRECTIONS, Direction, Dtype, PlanError, Save, Shape
from ..constants import constants_for
from ..estimate import StepEstimate
from ..limits import Limits
from ..mma import GROUP_UNITS, TILE_M, TILE_N, WARP
from ..refusal import (
    Clash,
    first_clash,
    largest_beyond_gaps,
    largest_dim,
    refusal,
    refuse_float64,
)
from .cost import cluster_step
from .plan import ClusterPlan
from .problem import SIZES, cluster_problem


def cluster_kernels(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    save: Save = "gates",
    tf32: bool = False,
) -> tuple[ClusterPlan, ...]:
    """The cluster plans of one direction, the cheapest first.

    They differ in the size of a cluster and in how warps share it.

    Args:
        cell: the cell.
        shape: sizes and dtype; what is compiled depends on head dim and dtype alone.
        limits: the GPU.
        direction: which of the two kernels.
        save: what the forward saves for the backward.
        tf32: whether float32 products may round to tf32.

    Raises:
        PlanError: a direction has none; names the constraint that binds and the largest head dim
            that fits.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.cluster.search import cluster_kernels
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> best = cluster_kernels(rnnc.cells.lstm, Shape(6, 128), limits_of("H200"), "forward")[0]
        >>> best.cluster * best.units
        128
    """
    refuse_float64("cluster", cell, shape)
    both = {d: _ranked(cell, shape, limits, d) for d in DIRECTIONS}
    if not all(both.values()):
        raise _refusal(cell, shape, limits)
    return tuple(replace(kernel, save=save, tf32=tf32) for kernel in both[direction])


@lru_cache(maxsize=512)
def _ranked(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction
) -> tuple[ClusterPlan, ...]:
    """The best kernel for each size of a cluster and number of warps, the cheapest first."""
    clusters = shape.heads * math.ceil(shape.batch / TILE_N)
    found = []
    for size in SIZES:
        together = min(math.ceil(clusters * size / limits.multiprocessors), 4)
        for best in _best(cell, _sizes(shape), limits, direction, size, together):
            plan = _kernel(best, shape, limits, direction)
            step = cluster_step(derive(cell), shape, limits, plan, constants_for(limits))
            found.append(replace(plan, estimate=StepEstimate.of(step)))
    return tuple(sorted(found, key=lambda plan: plan.nanoseconds))


def _sizes(shape: Shape) -> Shape:
    """The shape as far as one cluster sees it."""
    return Shape(1, shape.head_dim, 1, 1, shape.dtype)


@lru_cache(maxsize=4096)
def _best(
    cell: CellSpec, shape: Shape, limits: Limits, direction: Direction, size: int, together: int
) -> tuple[Solution, ...]:
    """The first solution for a size of a cluster and each way that warps share it."""
    if size > limits.cluster or size > shape.head_dim // GROUP_UNITS:
        return ()
    m = cluster_problem(cell, shape, limits, direction, together)
    m.require(m["cluster"] == size, "the size asked for")
    share = m["splits" if direction == "forward" else "warps"]
    found: dict[int, Solution] = {}
    for solution in m.solutions(prefer=[share.smallest]):
        found.setdefault(solution[share.name], solution)
    return tuple(found.values())


def _kernel(found: Solution, shape: Shape, limits: Limits, direction: Direction) -> ClusterPlan:
    threads = 4 * WARP * found["quarter"]
    kib = WARP * found["warps"] * found["matrix"] * 4 // 1024
    return ClusterPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        binding=f"registers: {kib} KiB of {limits.registers // 256} KiB hold R",
        head_dim=shape.head_dim,
        rows=TILE_N,
        warps=found["warps"],
        registers=limits.registers_for(threads * found["blocks"]),
        shared=found["shared"],
        cluster=found["cluster"],
        units=found["units"],
        splits=found["splits"],
        ahead=found["ahead"],
        blocks_per_multiprocessor=found["blocks"],
        matrix_registers=found["matrix"],
    )


def _clash(cell: CellSpec, shape: Shape, limits: Limits) -> Clash | None:
    """What stands in the way of a cluster."""
    return first_clash(lambda d: cluster_problem(cell, _sizes(shape), limits, d))


def _refusal(cell: CellSpec, shape: Shape, limits: Limits) -> PlanError:
    clash, largest = _clash(cell, shape, limits), largest_cluster_dim(cell, shape.dtype, limits)
    if limits.cluster < min(SIZES):
        wanted = "a GPU with clusters: compute capability 9.0 or later"
    else:
        wanted = "a cell with fewer gates and states: no head dim fits"
    # A head may be too small to be shared, or fall between two that whole tiles divide.
    above = range(TILE_M * (shape.head_dim // TILE_M + 1), largest + 1, TILE_M)
    larger = next((dim for dim in above if _fits(cell, dim, shape.dtype, limits)), 0)
    return refusal("cluster", cell, shape, limits, clash, largest, wanted, larger)


def _fits(cell: CellSpec, dim: int, dtype: Dtype, limits: Limits) -> bool:
    """Whether a head of that many units has a cluster."""
    return _clash(cell, Shape(1, dim, 1, 1, dtype), limits) is None


@lru_cache(maxsize=512)
def largest_cluster_dim(cell: CellSpec, dtype: Dtype, limits: Limits) -> int:
    """The largest head dim, a multiple of 16, whose R fits a cluster; 0 if none does."""

    def fits(dim: int) -> bool:
        return _fits(cell, dim, dtype, limits)

    if limits.cluster < min(SIZES) or not fits(32):
        return 0
    return largest_dim(fits, low=32, high=64, step=TILE_M)


def largest_cluster_head(cell: CellSpec, dtype: Dtype, limits: Limits, heads: int) -> int:
    """The largest head dim, a multiple of 8, that has a cluster plan; 0 if none has one.

    Args:
        cell: the cell.
        dtype: of R and h.
        limits: the GPU.
        heads: they do not matter: no head waits for another.
    """
    if limits.cluster < min(SIZES):
        return 0
    first = largest_cluster_dim(cell, dtype, limits)
    return largest_beyond_gaps(first, lambda dim: _fits(cell, dim, dtype, limits))
