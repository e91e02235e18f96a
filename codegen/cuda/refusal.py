"""Why there is no plan of a kind, and which size would have one: what all fused plans say alike."""

from __future__ import annotations

from collections.abc import Callable

from ...cellspec.cell import CellSpec
from ...constrint import Model, Unsatisfiable
from ..shape import DIRECTIONS, Direction, PlanError, Shape
from .limits import Limits

Clash = tuple[Direction, Unsatisfiable]
HEAD_STEP = 8  # units: the largest heads are counted in multiples of it


def first_clash(problem: Callable[[Direction], Model]) -> Clash | None:
    """What stands in the way, in the direction that fails first; nothing where a plan fits.

    Args:
        problem: the constraints on the kernel of a direction.
    """
    for direction in DIRECTIONS:
        try:
            problem(direction).solve()
        except Unsatisfiable as error:
            return direction, error  # whose words take a while, and not everyone reads them
    return None


def largest_dim(fits: Callable[[int], bool], low: int, high: int, step: int) -> int:
    """The largest head dim that fits, by doubling, then halving.

    What fits, is taken to fit for every smaller multiple of the step.

    Args:
        fits: whether a head dim does.
        low: one that does, or 0; the answer where none larger does.
        high: the next that is tried; both are multiples of the step.
        step: of the answer.
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
    """Say that a kind of plan has no kernels in float64.

    Args:
        variant: the kind.
        cell: the cell.
        shape: that was asked for.

    Raises:
        PlanError: it is float64.
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
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    clash: Clash | None,
    largest: int,
    wanted: str,
    larger: int = 0,
) -> PlanError:
    """The error of a plan that does not exist.

    Args:
        variant: its kind.
        cell: the cell.
        shape: that was asked for.
        limits: of the GPU.
        clash: what stands in the way.
        largest: the largest head dim that fits; 0 if none does.
        wanted: what would fit where no head dim does.
        larger: the next larger head dim that fits, where the one asked for is too small.
    """
    found = f"{clash[0]}, {clash[1]}" if clash else ""
    if larger:
        wanted = f"a head dim that blocks can share, such as {larger}"
    elif largest:
        wanted = f"a head dim of at most {largest}"
    dim = larger or largest
    return PlanError(
        f"{variant} plan of {cell.name} for {shape} on {limits.name}",
        found,
        wanted,
        (f"head_dim={dim}, or " if dim else "") + 'variant="alternating"',
    )
