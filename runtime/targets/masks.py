"""Masks of a call of all layers by operators of torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..call.made_masks import MadeMasks
from ..call.masks import masks_of
from ..call.ragged import Ragged


def masks_by_torch(
    ragged: Ragged, sizes: tuple[int, int], device: torch.device, reverses: Sequence[bool]
) -> MadeMasks:
    """Make the masks of a call, of all directions.

    `sizes` are B and T. `reverses` says of each direction if it runs from the last step to the
    first.
    """
    reset = None if ragged.reset is None else ragged.reset.t()
    own = [masks_of(ragged.lengths, reset, None, sizes, device, reverse) for reverse in reverses]
    steps = torch.stack([masks.steps for masks in own if masks is not None])
    return MadeMasks(steps, None, None if own[0] is None else own[0].longest)
