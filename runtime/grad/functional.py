"""Transforms of `torch.func` that kernels follow: `grad`, `vjp`, and `vmap` around and inside them.

It transforms autograd functions that say apart what they save, and how a batch of calls runs.
See torch's notes on extending `torch.func`. A batch of calls is one call, as `joins.py` says. Two
kinds run one after the other: calls that differ in weights and in lengths or resets too, and
backwards of calls that share params, of which each gives a gradient of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call.plain import all_plain, is_watched
from ..call.settings import CallText, read_call, write_call
from ..call.tensors import SomeTensors
from ..check.masks import check_lengths
from .joins import Dims, join_of, shape_of
from .operators.call import call_backward_op, call_op, plain_backward, refuse_second, set_up


def run_functional(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    """Return the results of `rnnc::call`, under transforms."""
    return list(_apply_call(text, *tensors))


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(text: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        _check_lengths(read_call(text), tensors)
        return tuple(call_op(list(tensors), text))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        text, *tensors = inputs
        if read_call(text).keep:  # else nothing needs a gradient
            set_up(ctx, (tensors, text), output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        count, needs = ctx.results, ctx.needs_input_grad[1:]
        reads = _Reads(ctx.text, needs, count, ctx.first)
        found = iter(_apply_backward(reads, *gradients[:count], *ctx.saved_tensors))
        return None, *[next(found) if need else None for need in needs]

    @staticmethod
    def vmap(info: Any, in_dims: Any, text: str, *tensors: Tensor) -> tuple[Any, Any]:
        written, dims, size = read_call(text), in_dims[1:], info.batch_size
        batch = shape_of(tensors[0], dims[0])[0 if written.asked.takes_wx else 1]
        join = join_of(written, dims, size, batch)
        if join is None:
            return _one_by_one(size, dims, tensors, lambda own: _apply_call(text, *own))
        found = _apply_call(write_call(join.call(0)), *join.beside(tensors, dims))
        return join.results_apart(found)


class _Reads(NamedTuple):
    """Arguments of a backward besides its tensors: the call, and which gradients are wanted.

    Its tensors are so many `gradients`, then the `tensors` of the call, and then results.
    """

    text: str
    needs: tuple[bool, ...]
    gradients: int
    tensors: int

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return what belongs to gradients, to tensors of the call and to results."""
        end = self.gradients + self.tensors
        first = list(values[: self.gradients])
        return first, list(values[self.gradients : end]), list(values[end:])


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(reads: _Reads, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        plain = not is_watched() and all_plain(tensors)
        # The operator copies gradients that do not lie in order: wx has an order of its own.
        run = plain_backward if plain else call_backward_op
        return tuple(run(*reads.split(tensors), list(reads.needs), reads.text))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Save nothing: there is no second derivative."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        refuse_second()

    @staticmethod
    def vmap(info: Any, in_dims: Any, reads: _Reads, *tensors: Any) -> tuple[Any, Any]:
        written, size, needs = read_call(reads.text), info.batch_size, reads.needs
        d_results, inputs, output = reads.split(tensors)
        d_dims, own_dims, output_dims = reads.split(in_dims[1:])
        missing = [None] * (len(needs) - len(inputs))  # a wx that the backward does not read
        batch = shape_of(output[0], output_dims[0])[1]
        join = join_of(written, (*missing, *own_dims), size, batch)
        if join is None or join.lacks(needs):
            each = size, in_dims[1:], tensors
            return _one_by_one(*each, lambda own: _apply_backward(reads, *own))
        gradients = join.results_beside(d_results, d_dims, kept=False)
        read = join.beside(inputs, own_dims, needs[len(missing) :])
        kept = join.results_beside(output, output_dims, kept=True)
        of_all = reads._replace(text=write_call(join.call(join.samples(needs))))
        found = _apply_backward(of_all, *gradients, *read, *kept)
        return join.gradients_apart(found, (*missing, *inputs), (*missing, *own_dims), needs)


_apply_call: Callable[..., Any] = _Call.apply
_apply_backward: Callable[..., Any] = _Backward.apply


def _check_lengths(written: CallText, tensors: Sequence[Tensor]) -> None:
    """Check the values of lengths, which no check sees where a `vmap` maps them."""
    asked = written.asked
    kind, states = asked.ragged, len(written.settings.cell.states) if asked.given else 0
    if kind is not None and kind.lengths:
        lengths, x = tensors[1 + states], tensors[0]
        check_lengths(lengths, len(lengths), x.shape[1 if asked.takes_wx else 0])


def _one_by_one(
    size: int, dims: Dims, tensors: SomeTensors, run: Any
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
