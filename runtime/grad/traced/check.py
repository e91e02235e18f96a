"""Checks of the tensors of the operators of all layers, whose kernels read them by their address.

A graph that a compiler made gives the same kinds of tensors each time, so a call is compared with
those that passed before.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...call.layers import LayerWeights
from ...call.stack import Stack
from ...call.tensors import Saved, ScanInputs
from ...check.module import check_states
from ...check.scan import check_operator
from ...check.tensor import check_like, check_memory, shape_error
from ...errors import TensorError
from ...program.recorder import recording
from ...targets.lanes import NOTHING
from ...targets.moves import TORCH_MOVES
from ...targets.stack import states_for, target_for
from ..check_saved import check_as_left, check_saved, plain_gradients, sizes_of
from ..directions.joint import joint_stack, joint_states, joint_weights
from ..function import Likeness
from .schemas import Inputs, Options, to_parts


def check_forward(
    key: Hashable,
    stack: Stack,
    options: Options,
    inputs: Inputs,
) -> None:
    """Check the tensors of a forward; `key` is what the call is besides its tensors.

    A `TensorError` is raised for a tensor that is missing, or has a wrong shape, dtype, device or
    no memory.
    """
    x, states, weights, masks = inputs
    with _unrecorded():
        likeness = Likeness(("rnnc::rnn", key), (x, *states, *weights, masks))
        if not likeness.seen():
            _check_each(stack, options, inputs)
            likeness.remember()


def check_backward(
    key: Hashable,
    stack: Stack,
    options: Options,
    gradients: Sequence[Tensor | None],
    inputs: Inputs,
    results: Sequence[Tensor],
) -> list[Tensor | None]:
    """Check the tensors of a backward, and return the gradients as kernels can read them.

    `gradients` are of the output and of each last state, or None for zero; `results` are those of
    `rnnc::rnn` without the last states. The other arguments, and the errors, are as in
    `check_forward`.
    """
    x, states, weights, masks = inputs
    tensors = (*gradients, x, *states, *weights, masks, *results)
    with _unrecorded():
        likeness = Likeness(("rnnc::rnn_backward", key), tensors)
        if likeness.seen():
            return list(gradients)
        _check_each(stack, options, inputs)
        _check_results(stack, options, x, states, weights, results)
        plain = _checked_gradients(stack, x, gradients)
        if all(new is old for new, old in zip(plain, gradients, strict=True)):
            likeness.remember()
    return plain


def _unrecorded() -> AbstractContextManager[Any]:
    """Return a context for checks in a call that is recorded: a replay compares its own tensors."""
    return _disable_current_modes() if recording() else NOTHING


def _check_results(
    stack: Stack,
    options: Options,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    results: Sequence[Tensor],
) -> None:
    """Check what the forward gave."""
    named, given, run = options.weights(weights), states, stack
    if stack.joint:
        run = joint_stack(stack)
        named, given = joint_weights(named, TORCH_MOVES), joint_states(states, TORCH_MOVES)
    firsts, parts = _firsts(run, x, given), to_parts(stack, results)
    for i, (own, first, (*sequences, kept)) in enumerate(zip(named, firsts, parts, strict=True)):
        call = run.calls[i % len(run.calls)]
        inputs = _inputs(run, x, first, own)
        read = Saved(inputs.wx, own.R, own.b, first, own.R_diag, own.params, sequences, kept)
        check_saved(target_for(run), call.cell, call.choice.save, sizes_of(read), read)


def _checked_gradients(
    stack: Stack, x: Tensor, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Return the gradients of the output and of each last state, as kernels can read them."""
    # The dispatcher resolves negative bits in tensors and lists of them, not in lists with None.
    plain = plain_gradients(gradients)
    steps, batch, _ = x.shape
    last = stack.parts, batch, stack.heads * stack.dim
    shapes = [(steps, batch, stack.features), *[last] * (len(gradients) - 1)]
    for i, (gradient, shape) in enumerate(zip(plain, shapes, strict=True)):
        if gradient is not None:
            check_as_left(f"gradient {i}", gradient, shape, x.dtype, x.device)
    return plain


def _check_counts(options: Options, params: int, weights: Sequence[Tensor]) -> None:
    """Refuse another number of weights than the options say, or than the cell has."""
    found, wanted = (len(options.given), len(weights)), options.parts * (4 + params)
    if found != (wanted, sum(options.given)):
        raise TensorError(
            "given and weights of rnnc::rnn",
            f"{found[0]} and {found[1]} of them",
            f"{wanted} and {sum(options.given)}",
            "for each direction of each layer whether it has W, R, b, R_diag and each param, and"
            " those that it has",
        )


def _check_each(stack: Stack, options: Options, inputs: Inputs) -> None:
    x, states, weights, masks = inputs
    cell = stack.calls[0].cell
    _check_counts(options, len(cell.params), weights)
    if x.ndim != 3:
        raise shape_error("x", x, "(T, B, input)", "x of that shape")
    steps, batch, size = x.shape
    directions, gates = len(stack.calls), len(cell.input_gates)
    if states:
        rows = (stack.parts, batch, stack.heads * stack.dim)
        names = [state.name for state in cell.states]
        check_states(states, names, [rows] * len(names), "(layers * directions, B, hidden)", "x", x)
    if options.rows:
        _check_rows(options, weights)
    named, firsts = options.weights(weights), _firsts(stack, x, states)
    for i, (own, first) in enumerate(zip(named, firsts, strict=True)):
        check_operator(cell, _inputs(stack, x, first, own), (True,) * len(first))
        features = size if i < directions else stack.features
        wanted = (gates, stack.heads, stack.dim, features)
        if gates:
            check_like(f"W of {i}", own.W, wanted, f"{wanted}, (Gx, N, D, input)", "x", x)
            check_memory(f"W of {i}", own.W) if own.W is not None else None
    dropped, count = (steps, batch, stack.features), stack.layers - 1 if stack.dropout else 0
    found = 0 if masks is None else len(masks)
    if found != count:
        raise TensorError("masks", f"{found} of them", f"{count}", "a mask for each dropout")
    if masks is not None:
        check_as_left("masks", masks, (count, *dropped), torch.bool, x.device)
    check_memory("x", x)


def _check_rows(options: Options, weights: Sequence[Tensor]) -> None:
    """Refuse weights that are no rows of all heads; what else is wrong shows gate by gate."""
    units = options.heads * options.dim
    ranks = ((2, 2, 1, 1) + (0,) * (len(options.given) // options.parts - 4)) * options.parts
    present = [rank for rank, given in zip(ranks, options.given, strict=True) if given]
    for number, (weight, rank) in enumerate(zip(weights, present, strict=True)):
        if rank and (weight.ndim != rank or weight.shape[0] % units):
            wanted = f"rows of {units} units" + (", (rows, features)" if rank == 2 else "")
            raise shape_error(f"weight {number}", weight, wanted, "rnnc.RNN, which calls this")


def _firsts(stack: Stack, x: Tensor, states: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return the states before the first step, of each direction of each layer."""
    return list(states_for(stack, x, x.shape[1], states))


def _inputs(stack: Stack, x: Tensor, first: Sequence[Tensor], own: LayerWeights) -> ScanInputs:
    """Return the inputs of a direction of a layer, with one element as the input's share."""
    steps, batch, _ = x.shape
    gates = len(stack.calls[0].cell.input_gates)
    wx = x.new_zeros(()).expand(batch, steps, stack.heads, stack.dim, gates)
    return ScanInputs(wx, own.R, own.b, first, own.R_diag, own.params)
