"""Which head dims grid plans take, and why one is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ....cellspec.cell import CellSpec
from ...shape import Dtype, PlanError, Shape
from ..limits import Limits
from ..mma import GROUP_UNITS
from ..refusal import (
    Clash,
    Margin,
    first_clash,
    largest_beyond_gaps,
    largest_dim,
    margins_of,
    refusal,
)
from .problem import Rows, grid_problem

_LARGEST_DIM = 16384


def sizes_of_group(shape: Shape) -> Shape:
    """The sizes that one group of blocks depends on."""
    return Shape(shape.heads, shape.head_dim, 1, 1, shape.dtype)


def _clash(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    streams: bool = False,
    margins: tuple[Margin, ...] = ("kept",),
) -> Clash | None:
    """The constraints that no group of blocks meets; None if there is a grid plan.

    If plans may stream, the constraints are those of a plan that streams.
    """

    def clash(streamed: bool) -> Clash | None:
        sizes, rows = sizes_of_group(shape), Rows()
        return first_clash(
            lambda d, margin: grid_problem(cell, sizes, limits, d, rows, streamed, margin=margin),
            margins,
        )

    found = clash(streamed=False)
    return clash(streamed=True) if found and streams else found


def grid_refusal(
    cell: CellSpec, shape: Shape, limits: Limits, streams: bool, margins: tuple[Margin, ...]
) -> PlanError:
    """The error of a grid plan that does not exist.

    Args:
        cell: the cell.
        shape: the requested sizes and dtype.
        limits: the GPU.
        streams: whether plans may stream a part of R.
        margins: of registers, those of `margins_of`.
    """
    clash = _clash(cell, shape, limits, streams, margins)
    largest = largest_grid_dim(cell, shape.dtype, limits, shape.heads, streams, margins)
    wanted = "fewer heads: no head dim fits"
    return refusal("grid", cell, shape, limits, clash, largest, wanted)


def _fits(
    cell: CellSpec,
    dtype: Dtype,
    limits: Limits,
    heads: int,
    streams: bool = False,
    margins: tuple[Margin, ...] = ("kept",),
) -> Callable[[int], bool]:
    """A function that says whether there is a grid plan for a head dim."""

    def fits(dim: int) -> bool:
        shape = Shape(heads, dim, 1, 1, dtype)
        return dim <= _LARGEST_DIM and _clash(cell, shape, limits, streams, margins) is None

    return fits


@lru_cache(maxsize=512)
def largest_grid_dim(
    cell: CellSpec,
    dtype: Dtype,
    limits: Limits,
    heads: int = 1,
    streams: bool = False,
    margins: tuple[Margin, ...] = ("kept",),
) -> int:
    """The largest head dim, a multiple of 8, whose R fits the chip; 0 if none does.

    It is found by halving; a larger head may fit beyond a gap.

    Args:
        cell: the cell.
        dtype: of R and h.
        limits: the GPU.
        heads: that share the chip.
        streams: whether only a part of R must fit, since plans may stream the rest.
        margins: of registers, those of `margins_of`.
    """
    fits = _fits(cell, dtype, limits, heads, streams, margins)
    return largest_dim(fits, low=0, high=64, step=GROUP_UNITS)


def largest_grid_head(cell: CellSpec, dtype: Dtype, limits: Limits, heads: int) -> int:
    """The largest head dim, a multiple of 8, that has a grid plan; 0 if none has one.

    Args:
        cell: the cell.
        dtype: of R and h.
        limits: the GPU.
        heads: that share the chip.
    """
    if not cell.dense_pairs:
        return 0  # blocks have nothing to exchange
    of = cell, dtype, limits, heads, False, margins_of(cell, close=True)
    return largest_beyond_gaps(largest_grid_dim(*of), _fits(*of))
