"""Gradients of a call by operations that a tracer, a mode or autograd itself sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..call.call import Call, Tensors
from ..call.forms import TorchForm
from ..call.ragged import Places
from ..call.tensors import SomeTensors
from ..call.text import text_of_call
from .compute import sequences_of
from .layers.forward import Kept
from .operators.call import call_backward_op, call_op
from .operators.results import beside_results, seen_by_autograd
from .torch_layers import torch_layers


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
        return _of_padded(call, named, named.places, kept, needs, gradients)
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
    call: Call,
    tensors: Tensors,
    places: Places,
    kept: Kept,
    needs: Sequence[bool],
    gradients: SomeTensors,
) -> list[Tensor | None]:
    """Return the gradients of a call on packed rows, by that on padded ones."""
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
