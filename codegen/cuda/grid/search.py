"""The search for grid plans."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ....constrint import Solution
from ...derive import derive
from ...request import PlanRequest
from ...shape import DIRECTIONS, Direction, PlanError, Shape
from ..cost.estimate import USUAL_STEPS, StepEstimate
from ..cost.inputs import CostInputs
from ..limits import Limits
from ..mma import GROUP_UNITS, K_TILE_BYTES, TILE_N, WARP
from ..refusal import Margin, Tried, refuse_float64
from .cost import grid_start, grid_step
from .exchange import exchanged_k_tiles
from .largest import grid_refusal, sizes_of_group
from .plan import GridPlan
from .problem import Rows, grid_problem

# A trial may find another kernel faster than the one with the lowest estimate. How many others it
# tries per direction, and how far above the lowest their estimates may be.
_NEAR = 1.1
_MOST_NEAR = 3
# Tiles of 8 batch rows per group of blocks, and the phases that share them.
_ROWS = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4))


def grid_kernels(
    request: PlanRequest,
    direction: Direction,
    *,
    streams: bool = True,
    near: float = _NEAR,
    close: bool = True,
) -> tuple[GridPlan, ...]:
    """The grid plans of one direction: the cheapest for each cut of the batch, and those with
    nearly the same estimate.

    Plans stream a part of R only if no kernel keeps all of R on the chip, and never that of a cell
    with stages.

    Args:
        request: what the plans are asked for.
        direction: which of the two kernels.
        streams: whether plans may stream a part of R.
        near: how many times the lowest estimate of its cut a plan's may be.
        close: whether a kernel may go without a margin of registers; see `Tried`.

    Raises:
        PlanError: the dtype has no matrix instructions, the cell has no dense recurrent matrix, or
            its blocks do not fit the chip; names the constraint that binds and the largest head dim
            that fits.
    """
    cell, shape = request.cell, request.shape
    _check(cell, shape)
    streams = streams and not cell.has_stages  # whose products come in another order
    tried = Tried.of(cell, request.limits, close=close)
    of = shape, direction, request.tf32, near
    tries = (tried._replace(margins=margins) for margins in tried.in_turn())
    found = next(filter(None, (_candidates(each, *of, streams=False) for each in tries)), ())
    if streams and not found:
        found = _candidates(tried, *of, streams=True)
    if not found:
        raise grid_refusal(tried, shape, streams)
    return tuple(replace(kernel, save=request.save, tf32=request.tf32) for kernel in found)


@lru_cache(maxsize=512)
def _candidates(
    tried: Tried, shape: Shape, direction: Direction, tf32: bool, near: float, streams: bool
) -> tuple[GridPlan, ...]:
    cell, limits, margins = tried
    inputs = _inputs(cell, shape, limits, tf32)
    sizes = (cell, sizes_of_group(shape), limits)

    def ranked(cut: Rows, direction: Direction) -> tuple[_Priced, ...]:
        each = (_ranked(*sizes, direction, cut, tf32, streams, margin) for margin in margins)
        return next(filter(None, each), ())

    found: list[GridPlan] = []
    for tiles, phases in _ROWS:
        cuts = [Rows(tiles, phases, groups) for groups in _groups(shape, limits, TILE_N * tiles)]
        if streams:  # each group and phase would stream R again
            cuts = [cut for cut in cuts if max(cut.groups, cut.phases) == 1]
        cut = _first_that_fits(cuts, lambda cut: all(ranked(cut, d) for d in DIRECTIONS))
        if cut is None:
            continue
        for kernel in _near(ranked(cut, direction), near):
            start = grid_start(inputs, kernel)
            estimate = StepEstimate.of(grid_step(inputs, kernel), start)
            binding = _binding(kernel, shape, limits)
            found.append(replace(kernel, estimate=estimate, binding=binding))
    return tuple(found)


def _groups(shape: Shape, limits: Limits, rows: int) -> Iterator[int]:
    """Return the groups of blocks that may run at once if each has so many rows, the most first."""
    wanted = math.ceil(shape.batch / rows)
    if rows > TILE_N and 2 * wanted * rows > 3 * (shape.batch + TILE_N):
        return  # too many rows would be padding
    for groups in range(min(wanted, limits.multiprocessors), 0, -1):
        waves = math.ceil(wanted / groups)
        if math.ceil(wanted / waves) == groups:  # waves of nearly the same size
            yield groups


def _first_that_fits(cuts: Sequence[Rows], fits: Callable[[Rows], bool]) -> Rows | None:
    """The first cut that fits; where one does, all with fewer groups do, which follow it."""
    if not cuts or fits(cuts[0]):
        return cuts[0] if cuts else None
    at = bisect_left(cuts, True, lo=1, key=fits)
    return cuts[at] if at < len(cuts) else None


_Priced = tuple[GridPlan, float]


def _near(ranked: Sequence[_Priced], near: float) -> list[GridPlan]:
    """The first kernel, and those of the next few whose estimates are nearly as low."""
    _, least = ranked[0]
    return [kernel for kernel, ns in ranked[: 1 + _MOST_NEAR] if ns < near * least]


@lru_cache(maxsize=2048)
def _ranked(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: Rows,
    tf32: bool,
    streams: bool,
    margin: Margin,
) -> tuple[_Priced, ...]:
    """The feasible kernels of a direction with the ns per step of a wave, the cheapest first."""
    inputs = _inputs(cell, shape, limits, tf32)
    found = []
    for kernel in _kernels(cell, shape, limits, direction, rows, streams, tf32, margin):
        step, start = grid_step(inputs, kernel), grid_start(inputs, kernel)
        found.append((kernel, step() + start / USUAL_STEPS))
    return tuple(sorted(found, key=lambda item: item[1]))


@lru_cache(maxsize=1024)
def _kernels(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: Rows,
    streams: bool,
    tf32: bool,
    margin: Margin,
) -> tuple[GridPlan, ...]:
    """The feasible kernels of a direction."""
    problem = grid_problem(cell, shape, limits, direction, rows, streams, tf32, margin)
    found = problem.solutions()
    return tuple(_kernel(cell, shape, limits, direction, rows, solution) for solution in found)


def _kernel(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    direction: Direction,
    rows: Rows,
    found: Solution,
) -> GridPlan:
    threads, units = 4 * WARP * found["quarter"], GROUP_UNITS * found["unit_groups"]
    dim_k_tiles = math.ceil(shape.head_dim * shape.element_bytes / K_TILE_BYTES)
    return GridPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        head_dim=shape.head_dim,
        rows=TILE_N * rows.tiles,
        warps=found["warps"],
        registers=limits.registers_for(threads),
        shared=found["shared"],
        groups=rows.groups,
        phases=rows.phases,
        blocks=found["blocks"],
        cluster=found["cluster"],
        units=units,
        k_tiles=found["each"] if direction == "forward" else found["k_tiles"],
        register_k_tiles=found["kept"],
        exchange_k_tiles=exchanged_k_tiles(
            derive(cell, early_sums=GridPlan.early_sums),
            direction,
            shape.head_dim,
            dim_k_tiles,
            units,
        ),
        tiles=found["tiles"],
        streamed_k_tiles=found["streamed"],
    )


def _inputs(cell: CellSpec, shape: Shape, limits: Limits, tf32: bool) -> CostInputs:
    pointwise = derive(cell, early_sums=GridPlan.early_sums)
    return replace(CostInputs.of(cell, shape, limits, tf32), pointwise=pointwise)


def _binding(kernel: GridPlan, shape: Shape, limits: Limits) -> str:
    """The limit that a larger head would break first, or that this one breaks."""
    if kernel.streamed_k_tiles:
        return "the chip does not hold all of R; auto takes an alternating plan"
    blocks = shape.heads * kernel.groups * kernel.blocks
    return f"{blocks} blocks on {limits.multiprocessors} SMs wait for each other"


def _check(cell: CellSpec, shape: Shape) -> None:
    refuse_float64("grid", cell, shape)
    if not cell.dense_pairs:
        raise PlanError(
            f"grid plan of {cell.name} for {shape}",
            "no dense recurrent matrix",
            "at least one dense recurrent matrix: the blocks of a grid exchange its inputs",
            'variant="block"',
        )
