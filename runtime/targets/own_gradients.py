"""Function of the reference whose gradient is not the derivative of its value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class WithGradient(torch.autograd.Function):
    """The first of two tensors of one shape, with the gradient of the second.

    With a bound that gradient is clamped to [-bound, bound]: cotangents are, which a backward
    passes on, once those of all uses of the value are added. In forward mode there are none, and
    the tangent of the second passes unchanged.
    """

    # This rule and `setup_context` let transforms of torch.func follow it.
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, of: Tensor, bound: Tensor | None = None) -> Tensor:
        """Return the value."""
        # No view: torch wants the tangent of a view to be a view of the tangent of its base.
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the bound."""
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Pass the gradient to the second."""
        (bound,), (found,) = ctx.saved_tensors, gradients
        if bound is not None:
            found = torch.minimum(torch.maximum(found, -bound), bound)
        return None, found, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        """Return the tangent of the second."""
        return tangents[1].clone()
