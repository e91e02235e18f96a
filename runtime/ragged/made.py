"""The masks of a call of all layers: made once, of all directions, and read by every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ...codegen.shape import Reverse
from ..masks import Masks, masks_of, with_reset_values
from .given import Ragged, by_heads


class MadeMasks(NamedTuple):
    """How rows take steps.

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

    def of(
        self,
        direction: int,
        reset_to: Sequence[Tensor] | None,
        sizes: tuple[int, int],
        reverse: Reverse,
    ) -> Masks:
        """The masks of a direction of a layer, or of both where one call runs them.

        Args:
            direction: its number.
            reset_to: of the direction, as in `Ragged` without their first axis.
            sizes: heads, and units per head.
            reverse: which heads run from the last step to the first.
        """
        steps, restarts = self.steps, self.restarts
        if reverse != "half":
            steps = steps[direction]
            restarts = None if restarts is None else restarts[direction]
        found = Masks(steps, self.longest, None, restarts, self.order)
        if reset_to is None:
            return found
        return with_reset_values(found, [by_heads(v, *sizes) for v in reset_to], reverse)


class MakesMasks(Protocol):
    """A target that makes masks by its own kernels."""

    def made_masks(
        self, ragged: Ragged, sizes: tuple[int, int], reverses: Sequence[bool]
    ) -> MadeMasks | None:
        """The masks; None where operators of torch make them.

        Args:
            ragged: of the call, on the device of the target.
            sizes: B and T.
            reverses: of each direction, whether it runs from the last step to the first.
        """

    def rows_that_run(self, x: Tensor, steps: Tensor) -> Tensor | None:
        """The rows of x, zero where a step does not run; None where operators of torch do it.

        Args:
            x: (T, B, features).
            steps: (T, B), as in `Masks`.
        """


def made_masks(
    target: object,
    ragged: Ragged,
    sizes: tuple[int, int],
    device: torch.device,
    reverses: Sequence[bool],
) -> MadeMasks:
    """The masks of a call of all layers.

    Args:
        target: of the call.
        ragged: of the call.
        sizes: B and T.
        device: of the call.
        reverses: of each direction, whether it runs from the last step to the first.
    """
    make: Any = getattr(target, "made_masks", None)
    found: MadeMasks | None = None if make is None else make(ragged, sizes, reverses)
    if found is not None:
        return found
    reset = None if ragged.reset is None else ragged.reset.t()
    own = [masks_of(ragged.lengths, reset, None, sizes, device, reverse) for reverse in reverses]
    steps = torch.stack([masks.steps for masks in own if masks is not None])
    return MadeMasks(steps, None, None if own[0] is None else own[0].longest)


def rows_that_run(target: object, ragged: Ragged, made: MadeMasks, x: Tensor) -> Tensor:
    """The input of the first layer with zeros where a row runs no step: no product reads more.

    Args:
        target: of the call.
        ragged: of the call.
        made: of the call.
        x: (T, B, input), or (total, input) of packed rows.
    """
    if ragged.lengths is None or ragged.starts is not None:
        return x
    select: Any = getattr(target, "rows_that_run", None)
    found: Tensor | None = None if select is None else select(x, made.steps[0])
    return ragged.cleaned(x) if found is None else found
