"""Why a kind of resident plan refuses a shape, and which head dims it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from ...cellspec.cell import CellSpec
from ...constrint import Model, Unsatisfiable
from ..shape import DIRECTIONS, Direction, PlanError, Shape
from .limits import Limits

Clash = tuple[Direction, Unsatisfiable]
HEAD_STEP = 8  # units: the largest heads are counted in multiples of it

# Whether registers keep to the bounds of all cells; or to lower ones, since kernels of a cell with
# stages, which has more numbers to count, need fewer; or to bounds below what its kernels need.
Margin = Literal["kept", "without", "spills"]


class Tried(NamedTuple):
    """Kernels that a search tries: of a cell on a GPU, with margins of registers in turn.

    Attributes:
        margins: those that kernels are planned with, the preferred one first.
    """

    cell: CellSpec
    limits: Limits
    margins: tuple[Margin, ...] = ("kept",)

    @classmethod
    def of(cls, cell: CellSpec, limits: Limits, *, close: bool, spills: bool = True) -> Tried:
        """Return what is tried.

        Args:
            cell: the cell.
            limits: the GPU.
            close: whether a plan may go without the margin. Few such plans have been measured.
            spills: whether such a plan may have too few registers.
        """
        if not close or not cell.has_stages:
            return cls(cell, limits)
        return cls(cell, limits, ("kept", "without", "spills") if spills else ("kept", "without"))

    def in_turn(self) -> Iterator[tuple[Margin, ...]]:
        """Yield the margins that a plan may have: the first alone, then one more each time."""
        for count in range(1, len(self.margins) + 1):
            yield self.margins[:count]


def first_clash(tried: Tried, problem: Callable[[Direction, Margin], Model]) -> Clash | None:
    """The constraints that cannot be met, in the first direction that fails; None if a plan fits.

    Args:
        tried: its last margin says what cannot be met.
        problem: the constraints on the kernel of a direction, with a margin of registers.
    """
    for direction in DIRECTIONS:
        unmet = None
        for margin in tried.margins:
            unmet = _unmet(problem(direction, margin))
            if unmet is None:
                break
        if unmet is not None:
            return direction, unmet
    return None


def _unmet(model: Model) -> Unsatisfiable | None:
    """The constraints that cannot be met. Formatting them is slow: whoever prints them does it."""
    try:
        model.solve()
    except Unsatisfiable as error:
        return error
    return None


def largest_dim(fits: Callable[[int], bool], low: int, high: int, step: int) -> int:
    """The largest head dim that fits, by doubling, then halving.

    If a size fits, every smaller multiple of the step is assumed to fit.

    Args:
        fits: says whether a head dim fits.
        low: a head dim that fits, or 0; the answer if no larger one fits.
        high: the first head dim to try. Both are multiples of `step`.
        step: the answer is a multiple of it.
    """
    while fits(high):
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // (2 * step) * step
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_beyond_gaps(first: int, fits: Callable[[int], bool]) -> int:
    """The largest head dim that fits, found from one that `largest_dim` gave.

    A few units more may divide better than fewer units: then a larger head fits although a smaller
    one does not.

    Args:
        first: the head dim that halving found.
        fits: whether a head dim does.
    """
    reach = max(first // 4, 8 * HEAD_STEP)
    tried = range(first + reach, first, -HEAD_STEP)
    return next((dim for dim in tried if fits(dim)), first)


def refuse_float64(variant: str, cell: CellSpec, shape: Shape) -> None:
    """Raise an error if the dtype is float64, for which a kind of plan has no kernels.

    Args:
        variant: the kind.
        cell: the cell.
        shape: the requested sizes and dtype.

    Raises:
        PlanError: the dtype is float64.
    """
    if shape.dtype == "float64":
        raise PlanError(
            f"{variant} plan of {cell.name} for {shape}",
            "float64",
            "a dtype with matrix instructions: bfloat16, float16 or float32",
            'variant="alternating"',
        )


def refusal(
    variant: str,
    tried: Tried,
    shape: Shape,
    clash: Clash | None,
    largest: int,
    wanted: str,
    larger: int = 0,
) -> PlanError:
    """The error of a plan that does not exist.

    Args:
        variant: its kind.
        tried: the kernels of this kind.
        shape: the requested sizes and dtype.
        clash: the constraints that cannot be met.
        largest: the largest head dim that fits; 0 if none does.
        wanted: what would fit, if no head dim does.
        larger: the next larger head dim that fits, if the requested one is too small; else 0.
    """
    found = f"{clash[0]}, {clash[1]}" if clash else ""
    if larger:
        wanted = f"a head dim that blocks can share, such as {larger}"
    elif largest:
        wanted = f"a head dim of at most {largest}"
    dim = larger or largest
    return PlanError(
        f"{variant} plan of {tried.cell.name} for {shape} on {tried.limits.name}",
        found,
        wanted,
        (f"head_dim={dim}, or " if dim else "") + 'variant="alternating"',
    )
