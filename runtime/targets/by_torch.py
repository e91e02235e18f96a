"""Lanes, copies, packed rows and shared states by torch, of a target that has nothing better."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor


class Lanes:
    """Lanes for the directions of a layer, as a context: one for all, which run one by one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """End the lanes."""

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for a direction; what it launches may run beside the other's."""
        return NOTHING


NOTHING, ONE_LANE = nullcontext(), Lanes()


class Moves:
    """Maker of tensors without gaps; a context, at whose end all are filled, here as made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Fill what was made."""

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return the tensors beside each other on an axis."""
        return torch.cat(list(tensors), axis)

    def packed(self, tensor: Tensor) -> Tensor:
        """Return the tensor without gaps; itself, if it has none."""
        return tensor.contiguous()


TORCH_MOVES = Moves()


class Packing:
    """Copies of rows, packed as in torch's `PackedSequence`, to padded ones (T, B) and back.

    Packed rows lie step by step: those of the sequences that run the step, the longest first.
    Padding is never read. `starts`, (T + 1,) of int64, has the first packed row of each step, and
    their number, `total`.
    """

    def __init__(self, starts: Tensor, sizes: tuple[int, int], total: int) -> None:
        self.sizes, (steps, batch), device = sizes, sizes, starts.device
        places = starts[:-1, None] + torch.arange(batch, device=device)
        # The packed row of each padded one, (T * B,); any row for padding.
        self._to_padded = places.clamp_(max=total - 1).flatten()
        step = torch.arange(steps, device=device)
        step = step.repeat_interleave(starts[1:] - starts[:-1], output_size=total)
        # The padded row of each packed one, (total,).
        self._to_packed = step * batch + torch.arange(total, device=device) - starts[step]

    def pad(self, rows: Tensor) -> Tensor:
        """Return packed rows (total, …) as padded ones (T, B, …); padding holds anything."""
        return rows.index_select(0, self._to_padded).view(*self.sizes, *rows.shape[1:])

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """Return parts, (T, B, …) each, as packed rows beside each other, (total, features)."""
        found = [part.flatten(2).flatten(0, 1).index_select(0, self._to_packed) for part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, 1)
