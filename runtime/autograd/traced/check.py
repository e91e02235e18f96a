"""Checks of the tensors of the operators of all layers, whose kernels read them by their address.

A graph that a compiler made gives the same kinds of tensors each time, so a call is compared with
those that passed before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...check.module import check_states
from ...check.scan import check_operator
from ...check.tensor import check_like, check_memory, shape_error
from ...errors import TensorError
from ...tensors import LayerWeights, Saved, ScanInputs
from ..check_saved import check_as_left, check_saved, sizes_of
from ..function import Likeness
from ..stack import Stack
from ..stack_backward import StackSaved
from .schemas import Options


def check_counts(options: Options, params: int, weights: Sequence[Tensor]) -> None:
    """Check how many weights an operator got.

    Args:
        options: of the call.
        params: of the cell.
        weights: those that there are.

    Raises:
        TensorError: their number is another than the options say, or than the cell has.
    """
    found, wanted = (len(options.given), len(weights)), options.parts * (4 + params)
    if found != (wanted, sum(options.given)):
        raise TensorError(
            "given and weights of rnnc::rnn",
            f"{found[0]} and {found[1]} of them",
            f"{wanted} and {sum(options.given)}",
            "for each direction of each layer whether it has W, R, b, R_diag and each param, and"
            " those that it has",
        )


def check_layers(
    stack: Stack,
    x: Tensor,
    states: Sequence[Tensor],
    weights: list[LayerWeights],
    masks: Sequence[Tensor],
) -> None:
    """Check the tensors of a forward.

    Args:
        stack: the call.
        x: (T, B, input).
        states: before the first step, (layers * directions, B, hidden) each.
        weights: of each direction of each layer.
        masks: of each dropout, (T, B, features) each.

    Raises:
        TensorError: a tensor is missing, or has a wrong shape, dtype, device or no memory.
    """
    flat = [tensor for own in weights for tensor in own.flat()]
    likeness = Likeness((stack, "rnnc::rnn", len(masks)), [x, *states, *masks, *flat])
    if not likeness.seen():
        _check_each(stack, x, states, weights, masks)
        likeness.remember()


def check_layers_saved(stack: Stack, saved: StackSaved, gradients: Sequence[Tensor | None]) -> None:
    """Check the tensors of a backward.

    Args:
        stack: the call.
        saved: what its forward took and gave.
        gradients: of the output and of each last state, or None for zero.

    Raises:
        TensorError: as in `check_layers`.
    """
    missing = tuple([gradient is None for gradient in gradients])
    likeness = Likeness((stack, "rnnc::rnn_backward", missing), [*saved.flat(), *gradients])
    if likeness.seen():
        return
    x, states, weights, masks, results = saved
    _check_each(stack, x, states, weights, masks)
    steps, batch, _ = x.shape
    for i, (own, (*sequences, kept)) in enumerate(zip(weights, results, strict=True)):
        call = stack.calls[i % len(stack.calls)]
        inputs = _inputs(stack, x, states, own, i)
        read = Saved(
            inputs.wx,
            own.R,
            own.b,
            inputs.initial_states,
            own.R_diag,
            own.params,
            sequences,
            kept,
        )
        check_saved(stack.target, call.cell, call.choice.save, sizes_of(read), read)
    shapes = [(steps, batch, stack.features), *[s.shape for s in states]]
    for i, (gradient, shape) in enumerate(zip(gradients, shapes, strict=True)):
        if gradient is not None:
            check_as_left(f"gradient {i}", gradient, shape, x.dtype, x.device)
    likeness.remember()


def _check_each(
    stack: Stack,
    x: Tensor,
    states: Sequence[Tensor],
    weights: list[LayerWeights],
    masks: Sequence[Tensor],
) -> None:
    if x.ndim != 3:
        raise shape_error("x", x, "(T, B, input)", "x of that shape")
    cell, (steps, batch, size) = stack.calls[0].cell, x.shape
    directions, gates = len(stack.calls), len(cell.input_gates)
    rows = (len(weights), batch, stack.heads * stack.dim)
    names = [state.name for state in cell.states]
    check_states(states, names, rows, "(layers * directions, B, hidden)", "x", x)
    for i, own in enumerate(weights):
        check_operator(cell, _inputs(stack, x, states, own, i), (True,) * len(names))
        features = size if i < directions else stack.features
        wanted = (gates, stack.heads, stack.dim, features)
        if gates:
            check_like(f"W of {i}", own.W, wanted, f"{wanted}, (Gx, N, D, input)", "x", x)
            check_memory(f"W of {i}", own.W) if own.W is not None else None
    dropped, count = (steps, batch, stack.features), stack.layers - 1 if stack.dropout else 0
    if len(masks) != count:
        raise TensorError("masks", f"{len(masks)} of them", f"{count}", "a mask for each dropout")
    for i, mask in enumerate(masks):
        check_as_left(f"mask {i}", mask, dropped, torch.bool, x.device)
    check_memory("x", x)


def _inputs(
    stack: Stack, x: Tensor, states: Sequence[Tensor], own: LayerWeights, index: int
) -> ScanInputs:
    """The inputs of a direction of a layer, with one element in place of the input's share."""
    steps, batch, _ = x.shape
    gates, plane = len(stack.calls[0].cell.input_gates), (stack.heads, stack.dim)
    wx = x.new_zeros(()).expand(batch, steps, *plane, gates)
    first = [state[index].reshape(batch, *plane) for state in states]
    return ScanInputs(wx, own.R, own.b, first, own.R_diag, own.params)
