"""The largest head that each kind of resident plan keeps on a chip, as the planner finds it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...cellspec.cell import CellSpec
from ..shape import Dtype, Shape
from .kinds import KINDS
from .limits import Limits


@dataclass(frozen=True)
class LargestHeadDims:
    """The largest head dims of a cell whose R stays on the chip.

    Attributes:
        limits: the GPU.
        dims: the largest head dim by kind of plan, for each kind that keeps R on the chip; 0 if no
            head dim fits, or if the kind's kernels do not run the cell.
    """

    limits: Limits
    dims: dict[str, int]

    @property
    def best(self) -> tuple[str, int]:
        """The kind of plan that takes the largest head, and its size."""
        return max(self.dims.items(), key=lambda pair: pair[1])


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
        heads: that share the chip, in a grid plan; heads of other plans do not wait for each other.

    Raises:
        PlanError: `heads` is not positive, or the dtype is another.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.largest import largest_head_dims
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> found = largest_head_dims(rnnc.cells.lstm, limits_of("A100"))
        >>> found.dims["block"], found.dims["cluster"], found.best[0]
        (128, 0, 'grid')
    """
    Shape(heads, 1, dtype=dtype)  # raises an error if heads or dtype is wrong
    dims = {}
    for name, kind in KINDS.items():
        if kind.largest_head:
            runs = kind.takes_stages or not cell.has_stages
            dims[name] = kind.largest_head(cell, dtype, limits, heads) if runs else 0
    return LargestHeadDims(limits, dims)
