"""Places of sequences that follow each other in one tensor, and in a padded one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Places(NamedTuple):
    """Places of B sequences of `total` steps together, the longest of T steps.

    Copies are `index_select`, which modes and autograd follow. Both directions are gathers, so a
    backward that has them needs no scatter.

    Attributes:
        padded: (T, B), the packed row of each padded one; in padding that of any sequence.
        packed: (total,), the padded row of each packed one, of T * B.
    """

    padded: Tensor
    packed: Tensor

    def pad(self, rows: Tensor) -> Tensor:
        """Return rows (total, …) as (T, B, …); their padding holds anything."""
        found = rows.index_select(0, self.padded.flatten())
        return found.view(*self.padded.shape, *rows.shape[1:])

    def pack(self, rows: Tensor) -> Tensor:
        """Return rows (T, B, …) as (total, …); their padding is not read."""
        return rows.flatten(0, 1).index_select(0, self.packed)


def places_of(starts: Tensor, total: int, steps: int) -> tuple[Tensor, Places]:
    """Return the length of each sequence, and places, from B + 1 starts; wrong ones are clamped."""
    starts = starts.long().clamp(0, total)
    begin, end = starts[:-1], starts[1:].contiguous()
    in_time = torch.arange(steps, device=starts.device).unsqueeze(1)
    padded = (begin + in_time).clamp(0, max(total - 1, 0))
    step = torch.arange(total, device=starts.device)
    row = torch.searchsorted(end, step, right=True).clamp(0, max(len(end) - 1, 0))
    time = (step - begin[row]).clamp(0, max(steps - 1, 0))
    return (end - begin).clamp(0, steps), Places(padded, time * len(begin) + row)
