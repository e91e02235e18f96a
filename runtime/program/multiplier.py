"""Products of matrices for a call, also in parts: by torch, or by a target at its precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Multiplier:
    """Products of matrices, (rows, K) (K, columns), or of equally many pairs of them, by torch.

    A target may have others.

    Attributes:
        tf32: whether factors of float32 may be rounded to TF32. torch's flags decide that for its
            own products; sums are taken as if they rounded nothing.
    """

    tf32 = False

    def mm(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the product."""
        return torch.mm(a, b) if a.ndim == 2 else torch.bmm(a, b)

    def mm_into(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Write the product to a tensor whose last two axes have no gaps."""
        return torch.mm(a, b, out=to) if a.ndim == 2 else torch.bmm(a, b, out=to)

    def add_mm(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Add the product to such a tensor, in place."""
        return to.addmm_(a, b) if a.ndim == 2 else to.baddbmm_(a, b)


TORCH = Multiplier()


def product_added(
    multiplier: Multiplier, to: Tensor | None, a: Tensor, b: Tensor, shape: Sequence[int]
) -> Tensor:
    """Return a product of two matrices in another shape, added to a contiguous `to` if given."""
    if to is None:
        return multiplier.mm(a, b).view(shape)
    multiplier.add_mm(to.view(a.shape[0], b.shape[1]), a, b)
    return to


# First row, rows of a part, and number of parts.
Spans = Sequence[tuple[int, int, int]]

# A sum in float32 is taken in parts, since short sums have smaller rounding errors: the fewest rows
# of one, and the most parts. Each part is a launch, which takes microseconds. Where factors are
# rounded to TF32, the rounding of shorter sums is far below theirs.
_SHORTEST_PART, _SHORTEST_PART_OF_TF32 = 128, 4096
_MOST_PARTS = 16
_MOST_AT_ONCE = 2**22  # elements of all parts, where one launch computes them


def spans_of(rows: int, dtype: torch.dtype, multiplier: Multiplier) -> list[tuple[int, int, int]]:
    """Return the parts in which a sum of so many rows is taken, as `_parts` does."""
    if dtype == torch.float32:
        return _parts(rows, _SHORTEST_PART_OF_TF32 if multiplier.tf32 else _SHORTEST_PART)
    return [(0, rows, 1)] if rows else []


def room_for(rows: Tensor, first: int, spans: Spans, dim: int) -> Tensor:
    """Return an empty tensor for partial sums: of the first step, if there is one, and of spans."""
    _, heads, width = rows.shape
    count = first + sum(parts for *_, parts in spans)
    if rows.dtype != torch.float32 or count * heads * width * dim > _MOST_AT_ONCE:
        count = 1  # each product is added to the one before
    return rows.new_empty(count, heads, width, dim)


def sum_parts(
    to: Tensor,
    place: int,
    left: Tensor,
    right: Tensor,
    spans: Spans,
    multiplier: Multiplier,
) -> None:
    """Write partial sums of left (rows, N, K) times right (rows, N, D) from a place on."""
    factors, previous = left.permute(1, 2, 0), right.transpose(0, 1)
    heads, _, dim = previous.shape
    apart = len(to) > 1
    for begin, size, parts in spans:
        end = begin + size * parts
        a = factors[:, :, begin:end].view(heads, -1, parts, size).transpose(1, 2)
        b = previous[:, begin:end].view(heads, parts, size, dim)
        if heads < parts and apart:
            for head in range(heads):
                multiplier.mm_into(to[place : place + parts, head], a[head], b[head])
            place += parts
            continue
        for part in range(parts):
            write = multiplier.mm_into if apart or not place else multiplier.add_mm
            write(to[place if apart else 0], a[:, part], b[:, part])
            place += 1


def _parts(rows: int, shortest: int) -> list[tuple[int, int, int]]:
    """Return a sum of so many rows in parts of one size, and the rest: first row, size, count."""
    size = max(math.ceil(rows / _MOST_PARTS), shortest)
    whole, rest = divmod(rows, size)
    found = [(0, size, whole)] if whole else []
    return [*found, (whole * size, rest, 1)] if rest else found
