"""Transforms of `torch.func` that kernels follow: `grad`, `vjp`, and `vmap` around and inside them.

It transforms autograd functions that say apart what they save, and how a batch of calls runs.
See torch's notes on extending `torch.func`. Calls that share their weights run as one of more rows.
Others run one after the other: kernels for a batch of weights would need the weights side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..call.text import CallText, read_call
from .operators.call import call_backward_op, call_op, read_by_backward, refuse_second

Dims = Sequence[int | None]


def run_functional(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    """Return the results of `rnnc::call`, under transforms."""
    return list(_apply_call(text, *tensors))


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(text: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(call_op(list(tensors), text))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        text, *tensors = inputs
        if not read_call(text).keep:  # nothing needs a gradient
            return
        ctx.text, count, read, kept = read_by_backward(tensors, text, output)
        ctx.counts = len(read), count
        ctx.mark_non_differentiable(*output[count:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*read, *kept)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        first, count = ctx.counts
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        arguments = *gradients[:count], *saved
        found = iter(_apply_backward(ctx.text, needs, count, first, *arguments))
        return None, *[next(found) if need else None for need in needs]

    @staticmethod
    def vmap(info: Any, in_dims: Any, text: str, *tensors: Tensor) -> tuple[Any, Any]:
        call, dims, size = read_call(text), in_dims[1:], info.batch_size
        if not _rows_join(call, dims):
            return _one_by_one(size, dims, tensors, lambda own: _apply_call(text, *own))
        # Of x and of states, B is the second axis.
        first = 1 + _states(call)
        joined = [_joined(*each, size) for each in zip(tensors[:first], dims, strict=False)]
        found = _apply_call(text, *joined, *tensors[first:])
        # Of states at all steps, last states, and what a backward reads, B is the second axis.
        apart = tuple([each.unflatten(1, (size, -1)) for each in found])
        return apart, (1,) * len(apart)


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(
        text: str, needs: tuple[bool, ...], count: int, first: int, *tensors: Tensor | None
    ) -> tuple[Tensor, ...]:
        end = count + first
        given: Any = list(tensors[:count]), list(tensors[count:end]), list(tensors[end:])
        return tuple(call_backward_op(*given, list(needs), text))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Save nothing: there is no second derivative."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        refuse_second()

    @staticmethod
    def vmap(
        info: Any,
        in_dims: Any,
        text: str,
        needs: tuple[bool, ...],
        count: int,
        first: int,
        *tensors: Tensor | None,
    ) -> tuple[Any, Any]:
        kind = text, needs, count, first
        dims = in_dims[4:]
        return _one_by_one(info.batch_size, dims, tensors, lambda own: _apply_backward(*kind, *own))


_apply_call: Callable[..., Any] = _Call.apply
_apply_backward: Callable[..., Any] = _Backward.apply


def _states(call: CallText) -> int:
    return len(call.settings.cell.states) if call.asked.given else 0


def _rows_join(call: CallText, dims: Dims) -> bool:
    """Return True if a batch of calls is one call of more rows.

    Then x and the caller's states alone differ between them.
    """
    asked = call.asked
    rows = asked.ragged is not None or asked.takes_wx or asked.drawn or asked.joint
    return not rows and all(dim is None for dim in dims[1 + _states(call) :])


def _joined(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """Return tensors of all calls beside each other on the second axis, call by call."""
    if dim is None:
        tensor, dim = tensor.unsqueeze(1).expand(-1, size, *tensor.shape[1:]), 1
    return tensor.movedim(dim, 1).flatten(1, 2)


def _one_by_one(
    size: int, dims: Dims, tensors: Sequence[Tensor | None], run: Any
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Return the results of a batch of calls that run one after the other."""
    found = []
    for number in range(size):
        own = [
            tensor if tensor is None or dim is None else tensor.select(dim, number)
            for tensor, dim in zip(tensors, dims, strict=True)
        ]
        found.append(run(own))
    stacked = tuple([torch.stack(each) for each in zip(*found, strict=True)])
    return stacked, (0,) * len(stacked)
