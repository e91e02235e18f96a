"""All layers over packed rows as one node of autograd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..autograd.layers import differentiable
from ..autograd.settings import Settings
from ..check.plain import is_watched
from ..tensors import States
from .own import torch_layers
from .packed_layers import Order, packed_layers


def run_node(
    settings: Settings,
    dropout: float,
    order: Order,
    data: Tensor,
    states: Sequence[Tensor] | None,
    parameters: Sequence[Tensor | None],
) -> tuple[Tensor, States]:
    """Run all layers by kernels.

    Args:
        settings: of the module.
        dropout: the probability of dropping a feature between layers.
        order: of the rows.
        data: (total, input).
        states: as in `packed_layers`; None for zeros.
        parameters: of the module.

    Returns:
        As `packed_layers`.
    """
    given = tuple(states or ())
    tensors = [t for t in (data, *given, *parameters) if t is not None]
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        drawn = _drawn(settings, dropout, data)
        return packed_layers(settings, order, data, given, parameters, drawn, _scale(dropout))
    y, *last = _Packed.apply(  # type: ignore[no-untyped-call]
        settings, dropout, order, len(given), data, *given, *parameters
    )
    return y, tuple(last)


class _Packed(torch.autograd.Function):
    """The kernels' graph of autograd is inside of the node; nobody else sees it.

    A second derivative is that of torch's operations.
    """

    @staticmethod
    def forward(
        ctx: Any,
        settings: Settings,
        dropout: float,
        order: Order,
        given: int,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, ...]:
        data, *_ = tensors
        assert data is not None
        masks, scale = _drawn(settings, dropout, data), _scale(dropout)
        ctx.inner = [None if t is None else t.detach() for t in tensors]
        for own, tensor in zip(ctx.inner, tensors, strict=True):
            if own is not None and tensor is not None:
                own.requires_grad_(tensor.requires_grad)
        with torch.enable_grad():
            x, states = ctx.inner[0], ctx.inner[1 : 1 + given]
            y, last = packed_layers(
                settings, order, x, states, ctx.inner[1 + given :], masks, scale
            )
        ctx.results, ctx.given = (y, *last), given
        ctx.again = partial(_by_torch, settings, dropout, order, masks, given)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        return tuple([result.detach() for result in ctx.results])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        needs = ctx.needs_input_grad[4:]
        if torch.is_grad_enabled() or is_watched():
            tensors = ctx.saved_tensors
            again = partial(ctx.again, tensors)
            return None, None, None, None, *differentiable(again, tensors, needs, gradients)
        _ = ctx.saved_tensors  # autograd refuses those that were changed since
        kept = torch._C._autograd._get_current_graph_task_keep_graph()
        pairs = [(r, g) for r, g in zip(ctx.results, gradients, strict=True) if g is not None]
        wanted = [t for t, need in zip(ctx.inner, needs, strict=True) if need]
        found = iter(
            torch.autograd.grad(
                [result for result, _ in pairs],
                wanted,
                [gradient for _, gradient in pairs],
                retain_graph=kept,
                allow_unused=True,
            )
        )
        return None, None, None, None, *[next(found) if need else None for need in needs]


def _drawn(settings: Settings, dropout: float, data: Tensor) -> list[Tensor]:
    """The mask of each dropout."""
    if not dropout:
        return []
    like = data.new_empty(len(data), len(settings.choices) * settings.heads * settings.dim)
    layers = range(settings.layers - 1)
    return [torch.native_dropout(like, dropout, True)[1] for _ in layers]


def _scale(dropout: float) -> float:
    """By what dropout multiplies the features that it keeps."""
    return 1 / (1 - dropout) if dropout < 1 else 0.0


def _by_torch(
    settings: Settings,
    dropout: float,
    order: Order,
    masks: Sequence[Tensor],
    given: int,
    tensors: Sequence[Any],
) -> tuple[Tensor, States]:
    """The same by torch's operations."""
    x, states, parameters = tensors[0], tensors[1 : 1 + given], tensors[1 + given :]
    return torch_layers(settings, dropout, x, states, parameters, masks, order.batch_sizes)
