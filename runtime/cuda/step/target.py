"""What a GPU adds to a target: kernels for a single step."""

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
    """Single steps of all layers, which read weights as the module stores them.

    Attributes:
        steps_as_sequences: a sequence of one step takes less time as a step.
    """

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

        Args:
            stack: the call; it drops no features.
            x: (B, input), or (1, B, input) for a sequence of one step.
            states: before the step, (layers, B, hidden) each; empty for their initial values.
            weights: of each layer, one after the other, as `Form.of_step` gives them.
            to: where the results go; None for new tensors.
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
        """The gradients of x, the caller's states and the flat weights of each layer.

        Args:
            stack: of the forward.
            x: of the forward.
            states: of the forward.
            weights: of the forward.
            stepped: its results.
            gradients: of the output and of each new state; None for zero.
            needs: which gradients are wanted.
        """
        weights = _by_gate(stack, weights)
        return backward_step(stack, x, states, weights, stepped, gradients, needs)

    def capture(
        self, device: torch.device, runs: Sequence[Callable[[], object]]
    ) -> list[Callable[[], None]] | None:
        """What replays each run as a graph on torch's current stream; None where nothing can be.

        Args:
            device: where the runs launch.
            runs: launch on torch's current stream; their replays follow each other.
        """
        return capture(device, runs) if device.type == "cuda" else None


def _by_gate(stack: Stack, weights: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Weights in the order that the kernels read: gate, head, unit."""
    if stack.heads == 1:
        return weights
    with CudaMoves() as moves:
        flat = flat_weights(stack.form, weights, stack.parts)
        return [None if weight is None else moves.packed(weight) for weight in flat]
