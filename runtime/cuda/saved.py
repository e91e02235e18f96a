"""Values that a forward on a GPU saves: those of units, and behind them numbers of heads."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..call.facts import Facts

# Elements that a number of a head takes: it has four bytes where elements have two. In other
# dtypes, whose numbers are elements, the second stays unused.
_OF_NUMBER = 2


def saved_shape(facts: Facts, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of what is saved of some steps; the sizes are T, B, N and D."""
    *outer, dim = sizes
    values = len(facts.saved)
    if not facts.statistics:
        return (*outer, dim, values)
    # Even, so that the numbers behind all values are aligned.
    units = dim * values + dim * values % 2
    return (*outer, units + facts.statistics * _OF_NUMBER)


def saved_parts(facts: Facts, saved: Tensor, dim: int) -> tuple[Tensor, Tensor | None]:
    """Return the values of units, (T, B, N, D, saved), and the memory of the numbers of heads.

    The numbers are (T, B, N, numbers), in the accuracy of the kernels; there is no memory of them
    where nothing is saved. `saved` is contiguous, of the shape that `saved_shape` gives.
    """
    if not facts.statistics:
        return saved, None
    outer, each = saved.shape[:3], len(facts.saved)
    count = outer.numel() * dim * each
    flat = saved.view(-1)
    return flat[:count].view(*outer, dim, each), flat[count + count % 2 :]
