"""Packed rows, as a `PackedSequence` of torch has them, and padded ones, as kernels read them.

Of a call with T steps and B sequences, the longest first, packed rows lie step by step: those of
the sequences that run the step, without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor


class Packing(Protocol):
    """Copies rows between both forms. What padding holds is never read.

    Attributes:
        sizes: T and B.
    """

    sizes: tuple[int, int]

    def pad(self, rows: Tensor) -> Tensor:
        """Packed rows as padded ones.

        Args:
            rows: (total, …), without gaps within a row.

        Returns:
            (T, B, …); padding holds anything.
        """

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """Padded rows as packed ones, several tensors beside each other.

        Args:
            parts: (T, B, …), without gaps within a row.

        Returns:
            (total, features of all).
        """


class TorchPacking:
    """By operators of torch.

    Args:
        starts: (T + 1,) of int64, the first packed row of each step, and their number.
        sizes: T and B.
        total: packed rows.
    """

    def __init__(self, starts: Tensor, sizes: tuple[int, int], total: int) -> None:
        self._starts, self.sizes, self._total = starts, sizes, total

    def pad(self, rows: Tensor) -> Tensor:
        """As in `Packing`."""
        return rows.index_select(0, self._to_padded).view(*self.sizes, *rows.shape[1:])

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """As in `Packing`."""
        found = [part.flatten(2).flatten(0, 1).index_select(0, self._to_packed) for part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    @cached_property
    def _to_padded(self) -> Tensor:
        """(T * B,), the packed row of each padded one; any row for padding."""
        places = self._starts[:-1, None] + torch.arange(self.sizes[1], device=self._starts.device)
        return places.clamp_(max=self._total - 1).flatten()

    @cached_property
    def _to_packed(self) -> Tensor:
        """(total,), the inverse."""
        steps, batch = self.sizes
        like = self._starts
        counts = like[1:] - like[:-1]
        step = torch.arange(steps, device=like.device)
        step = step.repeat_interleave(counts, output_size=self._total)
        return step * batch + torch.arange(self._total, device=like.device) - like[step]
