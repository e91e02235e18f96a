"""Part of a GPU's target that runs single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...call.forms import flat_weights
from ...call.stack import Stack
from ...call.tensors import Stepped
from ..products.moves import CudaMoves
from .backward import backward_step
from .forward import forward_step
from .graph import capture


class CudaSteps:
    """Single steps of all layers, which read weights as the module stores them."""

    steps_as_sequences = True

    def step(
        self,
        stack: Stack,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        to: Stepped | None = None,
    ) -> Stepped:
        """Run all layers over one step.

        The weights are as `Form.of_step` gives them; the rest is as in `forward_step`.
        """
        return forward_step(stack, x, states, _by_gate(stack, weights), to)

    def step_backward(
        self,
        stack: Stack,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        stepped: Stepped,
        gradients: Sequence[Tensor | None],
        needs: Sequence[bool],
    ) -> list[Tensor | None]:
        """Return the gradients of x, the caller's states and the flat weights of each layer."""
        weights = _by_gate(stack, weights)
        return backward_step(stack, x, states, weights, stepped, gradients, needs)

    def capture(
        self, device: torch.device, runs: Sequence[Callable[[], object]]
    ) -> list[Callable[[], None]] | None:
        """Return the replays of each run as a graph on torch's current stream; None off a GPU."""
        return capture(device, runs) if device.type == "cuda" else None


def _by_gate(stack: Stack, weights: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return weights in the order that the kernels read: gate, head, unit."""
    if stack.heads == 1:
        return weights
    with CudaMoves() as moves:
        flat = flat_weights(stack.form, weights, stack.parts)
        return [None if weight is None else moves.packed(weight) for weight in flat]
