"""Results of the operators without values, of tensors of any sizes, for compilers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...call.text import read_call
from ...targets.registry import target_of
from ..layers.rows import sizes_of
from .results import beside_results


def fake_call(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    """Return empty results of `rnnc::call`."""
    call, x = read_call(text), tensors[0]
    stack, target = call.stack("cpu", False), target_of(x.device)
    new, hidden = x.new_empty, stack.heads * stack.dim
    rows = stack.states + (stack.ragged.tensors if stack.ragged else 0)
    ragged = stack.ragged.named(tensors[1 + stack.states : 1 + rows]) if stack.ragged else None
    steps, batch = sizes_of(stack, x, ragged)
    count, plane = len(stack.initial_values), (stack.heads, stack.dim)
    over_time = (steps, batch, *plane) if stack.takes_wx else (*x.shape[:-1], stack.features)
    last = (batch, *plane) if stack.takes_wx else (stack.parts, batch, hidden)
    found = [new(over_time) for _ in range(stack.sequences)] + [new(last) for _ in range(count)]
    if not call.keep:
        return found
    sizes = steps, batch, stack.heads * stack.parts // stack.runs, stack.dim
    cell, save = call.settings.cell, call.settings.choice.save
    saved, runs = target.saved_shape(cell, sizes, True, save), []
    for number in range(stack.runs):
        own = stack.calls_of(number * stack.layers // stack.runs)[0].stored
        states = [new(steps if wanted else 0, *sizes[1:]) for wanted in own]
        runs.append((*states, new(saved)))
    return [*found, *beside_results(stack, runs)]


def fake_call_backward(
    gradients: Sequence[Tensor | None],
    tensors: Sequence[Tensor],
    results: Sequence[Tensor],
    needs: Sequence[bool],
    text: str,
) -> list[Tensor]:
    """Return empty results of `rnnc::call_backward`."""
    call = read_call(text)
    given: list[Any] = list(tensors)
    if len(given) < len(needs):
        steps, batch, *plane = results[0].shape
        inputs = len(call.settings.cell.input_gates)
        given.insert(0, results[0].new_empty(batch, steps, *plane, inputs))
    end = len(needs) - call.asked.drawn
    weights, outer = range(end - sum(call.present), end), (call.asked.samples,)
    return [
        tensor.new_empty((*(outer if number in weights and any(outer) else ()), *tensor.shape))
        for number, (tensor, need) in enumerate(zip(given, needs, strict=True))
        if need
    ]
