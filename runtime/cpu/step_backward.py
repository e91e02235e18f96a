"""The backward of a single step of all layers on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..call.call import Call, Tensors
from ..call.requests import StepBackward
from ..call.tensors import SomeTensors
from .arguments import addresses, pack
from .products import add_recurrent_gradient_of_states, matrices_of, recurrent_gradient
from .step import StepFacts, facts_of_step
from .tasks import sizes_of


def run_step_backward(call: Call, tensors: Tensors, backward: StepBackward) -> list[Tensor | None]:
    """Return the gradients of x, the caller's states and the flat weights of each layer."""
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    stepped, gradients, needs = backward
    facts, count = facts_of_step(call.directions[0], x.dtype), len(states)
    read = (x, *states, *weights, *stepped.last, stepped.saved, *gradients)
    read = tuple([t if t is None or t.is_contiguous() else t.contiguous() for t in read])
    batch, features = x.shape[-2:]
    if not batch:
        return Tensors(x, states, weights).zeros(needs)
    few = facts.multiplies(batch, call.heads * call.dim, features)
    # Where the weights begin, and what the step gave.
    first, results = 1 + count, 1 + count + len(weights)
    needs_states = any(needs[1:first])
    wanted = [needs[0], *[needs_states] * count, *needs[first:]]
    if not few:
        # torch makes those of x and of matrices.
        wanted[0] = False
        for index in range(first, results, facts.weights):
            wanted[index] = wanted[index + 1] = False
    inputs = zip(read[:results], wanted, strict=True)
    found = [torch.empty_like(t) if need and t is not None else None for t, need in inputs]
    if needs[0] and weights[0] is None:
        found[0] = torch.zeros_like(x)
    if not few:
        _by_torch(call, facts, read, count, needs, found)
        return found
    values = call.initial_values
    places, d_places = addresses(read), addresses(found)
    sizes = sizes_of(1, batch, call.heads, call.dim, 0)._replace(tile_rows=batch)
    fields = [
        *sizes,
        *(call.layers, features, places[0]),
        *(places[1:first] or [0] * len(values)),
        *places[results:],
        d_places[0],
        *(d_places[1:first] or [0] * len(values)),
        0,
    ]
    facts.backward(pack(fields, values, places[first:results] + d_places[first:]))
    return found


def _by_torch(
    call: Call,
    facts: StepFacts,
    tensors: SomeTensors,
    given: int,
    needs: Sequence[bool],
    found: list[Tensor | None],
) -> None:
    """Fill the gradients of a step, layer by layer, where torch multiplies matrices.

    `tensors` are x, the `given` states, the weights, the new states, the saved values, and the
    gradients of the output and the new states; contiguous. `found` are the gradients of the first
    of these that a kernel writes; those of matrices are None.
    """
    x, values, cell = tensors[0], call.initial_values, call.directions[0].cell
    assert x is not None
    batch, heads, dim = x.shape[-2], call.heads, call.dim
    plane, first, count = (batch, heads, dim), 1 + given, facts.weights
    lasts = first + call.layers * count
    saved, d_lasts = lasts + len(values), lasts + len(values) + 1
    zero = () if given else call.zero
    equal = [] if given else [x.new_full(plane, value) for value in values]
    rows, sizes = x.element_size() * batch * heads * dim, sizes_of(1, batch, heads, dim, 0)
    places, d_places = addresses(tensors), addresses(found)
    d_y = tensors[d_lasts]
    for layer in range(call.layers - 1, -1, -1):
        d_gates = x.new_empty(batch, heads, facts.gates, dim)
        begin, skipped = first + layer * count, layer * rows
        states = [p + skipped for p in places[1:first]] or [0] * len(values)
        fields = [
            *sizes,
            *(1, 0, 0),
            *states,
            *[p + skipped for p in places[lasts:saved]],
            places[saved] + skipped * facts.saved,
            0 if d_y is None else d_y.data_ptr(),
            *[p + skipped if p else 0 for p in places[d_lasts + 1 :]],
            0,
            *([p + skipped if p else 0 for p in d_places[1:first]] or [0] * len(values)),
            d_gates.data_ptr(),
        ]
        own = places[begin : begin + count] + d_places[begin : begin + count]
        facts.backward(pack(fields, values, own))
        W, R = tensors[begin], tensors[begin + 1]
        before = [s[layer].view(plane) for s in tensors[1:first]] or equal  # type: ignore[index]
        if R is not None and needs[begin + 1]:
            over_time = d_gates.unsqueeze(0)
            found[begin + 1] = recurrent_gradient(cell, over_time, (), before, False, zero)
        if R is not None and given and found[1] is not None:
            d_before = [d[layer].view(plane) for d in found[1:first]]  # type: ignore[index]
            matrices = matrices_of(R, heads, dim)
            add_recurrent_gradient_of_states(cell, matrices, d_gates, d_before)
        d_y = None
        if W is None:
            continue
        below = tensors[lasts][layer - 1] if layer else x  # type: ignore[index]
        columns = _of_inputs(d_gates, facts.inputs)
        if needs[begin]:
            found[begin] = torch.mm(columns.t(), below.view(batch, -1)).view(W.shape)
        if layer or needs[0]:
            d_y = torch.mm(columns, W.view(-1, W.shape[-1]))
    if needs[0] and d_y is not None:
        found[0] = d_y.view(x.shape)


def _of_inputs(d_gates: Tensor, inputs: int) -> Tensor:
    """Return the gradients of the gates with input in the order of W, (B, N * Gx * D)."""
    batch, heads, gates, dim = d_gates.shape
    if heads == 1:
        return d_gates.view(batch, gates * dim)[:, : inputs * dim]
    return d_gates[:, :, :inputs].reshape(batch, heads * inputs * dim)
