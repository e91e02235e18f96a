"""Results of the operators: their shapes for tracers, and what runs keep besides them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...call.call import Call
from ...call.settings import read_call
from ...call.tensors import SomeTensors
from ...targets.registry import target_of
from ..layers.rows import sizes_of


def beside_results(call: Call, runs: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return what runs kept without the memory of results; `runs_of` is the inverse."""
    *lower, last = runs
    own = last[call.sequences :] if _shares(call) else last
    return [tensor for run in (*lower, own) for tensor in run]


def runs_of(call: Call, results: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    """Return what each run kept, from the results of a call without the last states."""
    count, each = call.sequences, len(call.initial_values) + 1
    sequences, kept = results[:count], list(results[count:])
    if _shares(call):
        place, heads = len(kept) - (each - count), call.parts // call.runs * call.heads
        kept[place:place] = [state.view(*state.shape[:2], heads, call.dim) for state in sequences]
    return [kept[first : first + each] for first in range(0, len(kept), each)]


def shapes_of_results(call: Call, results: Sequence[Tensor]) -> list[tuple[int, ...]]:
    """Return the shape of each result of a call, from its results without the last states."""
    batch = runs_of(call, results)[-1][0].shape[1]
    last: tuple[int, ...] = (call.parts, batch, call.heads * call.dim)
    if call.takes_wx:
        last = (batch, call.heads, call.dim)
    shapes = [tuple(result.shape) for result in results[: call.sequences]]
    return shapes + [last] * (call.results - call.sequences)


def seen_by_autograd(
    call: Call, results: Sequence[Tensor], gradients: SomeTensors
) -> list[Tensor | None]:
    """Return gradients of a call's results as autograd sees them where it records a backward.

    It looks for tensors that need a gradient in lists without None alone. A second derivative
    through another list would be lost, where it has to be refused. `results` are those of the call
    without the last states.
    """
    if not torch.is_grad_enabled() or all(gradient is not None for gradient in gradients):
        return list(gradients)
    shapes = shapes_of_results(call, results)
    return [
        results[0].new_zeros(shape) if gradient is None else gradient
        for gradient, shape in zip(gradients, shapes, strict=True)
    ]


def _shares(call: Call) -> bool:
    """Return True if the states of the last run are the output: not of directions joined."""
    packed = call.ragged is not None and call.ragged.packed
    return call.runs == call.layers and not packed


def fake_call(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    """Return empty results of `rnnc::call`."""
    written, x = read_call(text), tensors[0]
    call, target = written.call("cpu", False), target_of(x.device)
    new, hidden = x.new_empty, call.heads * call.dim
    rows = call.states + (call.ragged.tensors if call.ragged else 0)
    ragged = call.ragged.named(tensors[1 + call.states : 1 + rows]) if call.ragged else None
    steps, batch = sizes_of(call, x, ragged)
    count, plane = len(call.initial_values), (call.heads, call.dim)
    over_time = (steps, batch, *plane) if call.takes_wx else (*x.shape[:-1], call.features)
    last = (batch, *plane) if call.takes_wx else (call.parts, batch, hidden)
    found = [new(over_time) for _ in range(call.sequences)] + [new(last) for _ in range(count)]
    if not written.keep:
        return found
    sizes = steps, batch, call.heads * call.parts // call.runs, call.dim
    cell, save = written.settings.cell, written.settings.choice.save
    saved, runs = target.saved_shape(cell, sizes, save), []
    for number in range(call.runs):
        own = call.directions_of(number * call.layers // call.runs)[0].stored
        states = [new(steps if wanted else 0, *sizes[1:]) for wanted in own]
        runs.append((*states, new(saved)))
    return [*found, *beside_results(call, runs)]


def fake_call_backward(
    gradients: SomeTensors,
    tensors: Sequence[Tensor],
    results: Sequence[Tensor],
    needs: Sequence[bool],
    text: str,
) -> list[Tensor]:
    """Return empty results of `rnnc::call_backward`."""
    written = read_call(text)
    given: list[Any] = list(tensors)
    if len(given) < len(needs):
        steps, batch, *plane = results[0].shape
        inputs = len(written.settings.cell.input_gates)
        given.insert(0, results[0].new_empty(batch, steps, *plane, inputs))
    end = len(needs) - written.asked.drawn
    weights, outer = range(end - sum(written.present), end), (written.asked.samples,)
    return [
        tensor.new_empty((*(outer if number in weights and any(outer) else ()), *tensor.shape))
        for number, (tensor, need) in enumerate(zip(given, needs, strict=True))
        if need
    ]
