"""What a target may do where no backward follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from .call import Call
from .tensors import Forward, ScanInputs, States

if TYPE_CHECKING:
    from .autograd.stack.stack import Stack


class SequenceTarget(Protocol):
    """A target that may run all layers over all steps by one call, where no backward follows."""

    def sequence(
        self,
        stack: Stack,
        x: Tensor,
        states: Sequence[Tensor],
        parameters: Sequence[Tensor | None],
    ) -> tuple[Tensor, States] | None:
        """Return the output of the last layer and each state after the last step.

        None where the caller has to run each layer by itself.
        """


class FeaturesTarget(Protocol):
    """A target whose kernels may multiply the input by its weights, where no backward follows."""

    def takes_features(self, call: Call, x: Tensor, weight: Tensor) -> bool:
        """Return whether that is faster for x (T, B, input) and weights (Gx, N, D, input)."""

    def forward_of_features(
        self, call: Call, x: Tensor, weight: Tensor, inputs: ScanInputs
    ) -> Forward:
        """Run the forward of a call; the wx of its other tensors has no gates."""
