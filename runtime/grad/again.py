"""Gradients of a call by operations that a tracer, a mode or autograd itself sees."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import _VF, Tensor, nn

from ..call.call import Call, Tensors
from ..call.forms import TorchForm
from ..call.settings import text_of_call
from ..call.tensors import SomeTensors
from .compute import sequences_of
from .layers.forward import Kept
from .operators.call import call_backward_op, call_op
from .operators.results import beside_results, seen_by_autograd

_RUNS = {"lstm": _VF.lstm, "gru": _VF.gru, "elman": _VF.rnn_tanh, "irnn": _VF.rnn_relu}


def torch_layers(call: Call, tensors: Tensors, masks: Sequence[Tensor]) -> list[Tensor]:
    """Return the results of a call by torch's operations, which autograd can differentiate again.

    The call is of a module of torch, of all rows or packed ones, or a single step. `masks` are of
    each dropout.
    """
    run: Any = _RUNS[call.directions[0].cell.name]
    directions, states, sizes = len(call.directions), list(tensors.states), None
    x = tensors.x.unsqueeze(0) if call.single and tensors.x.ndim == 2 else tensors.x
    if tensors.ragged is not None and tensors.ragged.starts is not None:
        sizes = tensors.ragged.starts.diff().cpu()
    batch = x.shape[1] if sizes is None else int(sizes[0])
    if not states:
        shape = (call.parts, batch, call.dim)
        states = [x.new_zeros(shape) for _ in call.initial_values]
    lasts: list[Sequence[Tensor]] = []
    # cuDNN has no second derivatives.
    off = torch.backends.cudnn.flags(enabled=False) if x.is_cuda else nullcontext()
    with off:
        for layer in range(call.layers):
            if layer and masks:
                x = x * masks[layer - 1] * call.scale
            elif layer and call.dropout:
                x = nn.functional.dropout(x, call.dropout)
            own = slice(layer * directions, (layer + 1) * directions)
            hx = [state[own] for state in states]
            weights = [w for w in tensors.weights[4 * own.start : 4 * own.stop] if w is not None]
            bias = len(weights) == 4 * directions
            given = hx if len(hx) > 1 else hx[0]
            options = bias, 1, 0.0, True, directions == 2
            if sizes is None:
                x, *last = run(x, given, weights, *options, False)
            else:
                x, *last = run(x, sizes, given, weights, *options)
            lasts.append(last)
    y = x[0] if call.single and tensors.x.ndim == 2 else x
    return [y, *(torch.cat(each) for each in zip(*lasts, strict=True))]


def differentiate_again(
    call: Call, flat: Sequence[Any], kept: Kept, needs: Sequence[bool], gradients: SomeTensors
) -> list[Tensor | None]:
    """Return the gradient of each of a call's flat tensors.

    `gradients` are of the results; None for zero. Calls of torch's own modules are computed again
    by torch's layers, which have a second derivative.
    """
    packed = call.ragged is not None and call.ragged.packed
    by_torch = isinstance(call.form, TorchForm) and (call.ragged is None or packed)
    named = call.named(flat)
    if named.places is not None:
        return _of_padded(call, named, kept, needs, gradients)
    if by_torch or call.single:
        inputs = _apart(flat)
        with torch.enable_grad():
            if by_torch:
                results = torch_layers(call, call.named(inputs), kept.masks)
            else:
                results = _step(call, inputs)
        return _differentiate(results, inputs, needs, gradients)
    if kept.masks:
        call, flat = call._replace(drawn=True), (*flat, torch.stack(list(kept.masks)))
        needs, named = (*needs, False), call.named(flat)
    results = [*sequences_of(call, named, kept), *beside_results(call, kept.runs)]
    # x may be missing: a backward need not read it, and gives its gradient.
    there = [not place or tensor is not None for place, tensor in enumerate(flat)]
    wanted = [need for need, own in zip(needs, there, strict=True) if own]
    tensors = [tensor for tensor in flat if tensor is not None]
    text = text_of_call(call, _present(named))
    seen = seen_by_autograd(call, results, gradients)
    found = iter(call_backward_op(seen, tensors, results, wanted, text))
    every = [next(found) if need and own else None for need, own in zip(needs, there, strict=True)]
    return every[: len(every) - bool(kept.masks)]


def _of_padded(
    call: Call, tensors: Tensors, kept: Kept, needs: Sequence[bool], gradients: SomeTensors
) -> list[Tensor | None]:
    """Return the gradients of a call on packed rows, by that on padded ones."""
    places = tensors.places
    assert places is not None
    count, end = call.sequences, len(tensors.before_weights()) - len(tensors.unweighted)
    padded, wanted = tensors.padded(places), [*needs[: end - 2], *needs[end:]]
    own = call._replace(ragged=padded.ragged and padded.ragged.kind), padded.flat()
    d_states = [None if d is None else places.pad(d) for d in gradients[:count]]
    d_wx, *found = differentiate_again(*own, kept, wanted, [*d_states, *gradients[count:]])
    d_wx = None if d_wx is None else places.pack(d_wx.transpose(0, 1))
    return [d_wx, *found[: end - 3], None, None, *found[end - 3 :]]


def _step(call: Call, inputs: Sequence[Any]) -> list[Tensor]:
    """Run a single step as a sequence of one, by the operator."""
    x, *rest = inputs
    sequence = call._replace(single=False)
    tensors = [x if x.ndim == 3 else x.unsqueeze(0), *[t for t in rest if t is not None]]
    y, *others = call_op(tensors, text_of_call(sequence, _present(call.named(inputs))))
    return [y if x.ndim == 3 else y[0], *others[: call.results - 1]]


def _present(tensors: Tensors) -> tuple[bool, ...]:
    return tuple([weight is not None for weight in tensors.weights])


def _apart(inputs: Sequence[Any]) -> list[Any]:
    """Give each input of a call a node of its own in the graph.

    One may depend on another: states of an earlier call depend on the same weights. The gradient of
    weights is that of this call alone, since autograd adds the rest itself.
    """
    with torch.enable_grad():
        return [t.view_as(t) if t is not None and t.requires_grad else t for t in inputs]


def _differentiate(
    results: Sequence[Tensor], inputs: Sequence[Any], needs: Sequence[bool], gradients: SomeTensors
) -> list[Tensor | None]:
    """Return the gradients of inputs that `_apart` gave, by autograd."""
    pairs = [(o, g) for o, g in zip(results, gradients, strict=True) if g is not None]
    wanted = [t for t, need in zip(inputs, needs, strict=True) if need and t is not None]
    found = iter(
        torch.autograd.grad(
            [o for o, _ in pairs],
            wanted,
            [g for _, g in pairs],
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )
    )
    return [next(found) if need else None for need in needs]
