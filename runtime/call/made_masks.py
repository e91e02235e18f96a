"""Masks of a call of all layers: made once, of all directions, and read by every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...codegen.shape import Reverse
from .masks import Masks, masks_of, with_reset_values
from .ragged import Ragged, by_heads


class MadeMasks(NamedTuple):
    """Masks of all directions of a call.

    Attributes:
        steps: (directions, T, B) of uint8; of a direction as in `Masks`.
        restarts: of a direction as in `Masks`, where the target reads them; else None.
        longest: as in `Masks`.
        order: as in `Masks`; it belongs to `restarts`.
    """

    steps: Tensor
    restarts: Tensor | None
    longest: Tensor | None
    order: Tensor | None = None

    def at(
        self,
        index: int,
        reset_to: Sequence[Tensor] | None,
        sizes: tuple[int, int],
        reverse: Reverse,
    ) -> Masks:
        """Return the masks of a direction, by its number among all; `sizes` are heads and units."""
        steps, restarts = self.steps, self.restarts
        if reverse != "half":
            direction = index % len(steps)
            steps = steps[direction]
            restarts = None if restarts is None else restarts[direction]
        found = Masks(steps, self.longest, None, restarts, self.order)
        if reset_to is None:
            return found
        return with_reset_values(found, [by_heads(v[index], *sizes) for v in reset_to], reverse)


def masks_by_torch(
    ragged: Ragged, sizes: tuple[int, int], device: torch.device, reverses: Sequence[bool]
) -> MadeMasks:
    """Make the masks of a call by operators of torch; arguments are as in `Target.made_masks`."""
    own = [masks_of(ragged.lengths, ragged.reset, sizes, device, reverse) for reverse in reverses]
    return MadeMasks(torch.stack([masks.steps for masks in own]), None, own[0].longest)
