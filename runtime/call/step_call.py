"""A single step of all layers of a module, with its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .call import Call
from .tensors import SomeTensors, Stepped


class StepCall(NamedTuple):
    """Single step of all layers, without dropout.

    Attributes:
        x: (B, input), or (1, B, input) of a sequence of one step.
        states: before the step, (layers, B, hidden) each; empty for their initial values.
        weights: of each layer, one after the other, as `Form.of_step` gives them.
    """

    call: Call
    x: Tensor
    states: Sequence[Tensor]
    weights: SomeTensors


class StepBackward(NamedTuple):
    """Backward of a single step of all layers, from what `step` gave.

    `gradients` are of the output and each new state, None for zero; `needs` says which are wanted,
    of x, the caller's states and the weights.
    """

    step: StepCall
    stepped: Stepped
    gradients: SomeTensors
    needs: Sequence[bool]

    def zeros(self) -> list[Tensor | None]:
        """Return the gradients of a batch without rows."""
        _, x, states, weights = self.step
        inputs = zip((x, *states, *weights), self.needs, strict=True)
        return [torch.zeros_like(t) if need and t is not None else None for t, need in inputs]
