"""Functions of the reference whose gradient is not the derivative of their value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# `setup_context` and the rule for `vmap` let transforms of torch.func follow them.


class ClipGradient(torch.autograd.Function):
    """Identity with a gradient that is clamped to [-bound, bound].

    It clips cotangents, which a backward passes on: those of all uses of the value are added first.
    In forward mode there are none, and the tangent passes unchanged.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, bound: Tensor) -> Tensor:
        """Return x."""
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Keep the bound."""
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Clamp the gradient."""
        (bound,) = ctx.saved_tensors
        return torch.minimum(torch.maximum(gradients[0], -bound), bound), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        """Return the tangent of x."""
        return tangents[0].view_as(tangents[0])


class WithGradient(torch.autograd.Function):
    """The first of two tensors of one shape, with the gradient of the second."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, of: Tensor) -> Tensor:
        """Return the value."""
        # No view: torch wants the tangent of a view to be a view of the tangent of its base.
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        """Pass the whole gradient to the second."""
        return None, gradients[0]

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        """Return the tangent of the second."""
        return tangents[1].clone()
