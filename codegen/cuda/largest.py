"""The largest head that each kind of fused plan keeps on a chip: what the planner itself finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from ...cellspec.cell import CellSpec
from ..layout import layout_of
from ..plan import Variant
from ..shape import Dtype, Shape
from .block import search as block
from .cluster import search as cluster
from .grid import search as grid
from .limits import Limits

_STEP = 8  # units: what all plans count heads in


@dataclass(frozen=True)
class LargestHeadDims:
    """The largest head dim of each kind of fused plan of a cell; 0 where there is none.

    Attributes:
        limits: the GPU.
        block: of one block a head.
        cluster: of a cluster of blocks a head.
        grid: of blocks all over the chip.
    """

    limits: Limits
    block: int
    cluster: int
    grid: int

    @property
    def best(self) -> tuple[Variant, int]:
        """The kind of plan that takes the largest head, and its size."""
        every: list[tuple[Variant, int]] = [
            ("block", self.block),
            ("cluster", self.cluster),
            ("grid", self.grid),
        ]
        return max(every, key=lambda pair: pair[1])


@lru_cache(maxsize=512)
def largest_head_dims(
    cell: CellSpec, limits: Limits, dtype: Dtype = "bfloat16", heads: int = 1
) -> LargestHeadDims:
    """The largest head dim, a multiple of 8, for which each kind of resident plan exists.

    Batch size does not matter: extra rows run in further waves. Smaller heads may still fail if
    they do not divide evenly.

    Args:
        cell: the cell.
        limits: the GPU.
        dtype: of R and h, one with matrix instructions.
        heads: that share the chip, of a grid plan; other plans' heads do not wait for each other.

    Raises:
        PlanError: `heads` is not positive.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.largest import largest_head_dims
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> found = largest_head_dims(rnnc.cells.lstm, limits_of("A100"))
        >>> found.block, found.cluster, found.best[0]
        (128, 0, 'grid')
    """
    Shape(heads, _STEP, dtype=dtype)  # or says what is wrong

    def largest(module: ModuleType, first: int) -> int:
        return _beyond(
            first, lambda dim: _fits(module, cell, Shape(heads, dim, 1, 1, dtype), limits)
        )

    clusters = limits.cluster >= 2
    shares = bool(layout_of(cell).sources)  # else blocks have nothing to tell each other
    return LargestHeadDims(
        limits,
        block=largest(block, block.largest_block_dim(cell, dtype, limits)),
        cluster=largest(cluster, cluster.largest_cluster_dim(cell, dtype, limits))
        if clusters
        else 0,
        grid=largest(grid, grid.largest_grid_dim(cell, dtype, limits, heads)) if shares else 0,
    )


def _fits(module: ModuleType, cell: CellSpec, shape: Shape, limits: Limits) -> bool:
    """Whether a module has a plan, without the words of a refusal, which take long."""
    return module._clash(cell, shape, limits) is None


def _beyond(first: int, fits: Callable[[int], bool]) -> int:
    """The largest that fits, from one that was found by halving: there may be gaps below it.

    Of units that divide badly a cluster's blocks need more room than of a few more units.
    """
    reach = max(first // 4, 8 * _STEP)
    return next((d for d in range(first + reach, first, -_STEP) if fits(d)), first)
