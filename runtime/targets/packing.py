"""Packed rows, as a `PackedSequence` of torch has them, and padded ones, as kernels read them.

Of a call with T steps and B sequences, the longest first, packed rows lie step by step: those of
the sequences that run the step, without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Packing:
    """Copies of rows between both forms, with `sizes` T and B, by operators of torch.

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
        """Return packed rows, (total, …) without gaps within a row, as padded ones, (T, B, …).

        Their padding holds anything.
        """
        return rows.index_select(0, self._to_padded).view(*self.sizes, *rows.shape[1:])

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """Return parts, (T, B, …) each, as packed rows beside each other, (total, features)."""
        found = [part.flatten(2).flatten(0, 1).index_select(0, self._to_packed) for part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, 1)
