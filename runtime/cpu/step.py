"""A single step of all layers on the CPU, and its backward: no tensor over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.call import Call, Tensors
from ..call.facts import facts_of
from ..call.layer_call import LayerCall
from ..call.requests import StepBackward
from ..call.tensors import States, Stepped
from .arguments import address, addresses, pack
from .compile import cpu_library, plan_of
from .inputs import linear
from .products import (
    add_recurrent_gradient_of_states,
    matrices_of,
    recurrent_gradient,
    recurrent_product,
)
from .tasks import sizes_of

# The kernel multiplies for so few batch rows, or for so small a product of a layer's weights and
# the square of the rows. Beyond, torch's products are faster, since they use a matrix for more rows
# at once, and what a call of torch takes weighs less.
_FEW_ROWS = 16
_FEW = 2**26


class StepFacts(NamedTuple):
    """Kernels and counts of a call.

    The matrices are those of the input or of the states, whichever are more, and the weights those
    of `LayerWeights.flat` of a layer. `saved` values per unit are 0 if no backward follows.
    """

    forward: Callable[[bytes], object]
    backward: Callable[[bytes], object]
    gates: int
    inputs: int
    matrices: int
    weights: int
    saved: int

    def multiplies(self, batch: int, hidden: int, features: int) -> bool:
        """Return True if the kernel multiplies the matrices too; else torch does."""
        if batch <= _FEW_ROWS:
            return True
        return batch * batch * self.matrices * hidden * max(features, hidden) <= _FEW


@lru_cache(maxsize=1024)
def facts_of_step(layer_call: LayerCall, dtype: torch.dtype) -> StepFacts:
    """Return the facts of a call."""
    counts = facts_of(layer_call.cell).counts
    library = cpu_library(layer_call.cell, plan_of(dtype, single_step=True))
    return StepFacts(
        library.rnnc_step,
        library.rnnc_step_backward,
        counts.gates,
        counts.inputs,
        max(counts.inputs, counts.dense),
        4 + counts.params,
        counts.saved if layer_call.for_backward else 0,
    )


def run_step(call: Call, tensors: Tensors, to: Stepped | None = None) -> Stepped:
    """Run all layers over one step: by one call of a kernel, or one each and torch's products.

    A step and a sequence of one step have the same products, pointwise maps and bits. `to` has
    contiguous tensors for the results, other than the states; None for new ones.
    """
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    layers, heads, dim = call.layers, call.heads, call.dim
    facts = facts_of_step(call.directions[0], x.dtype)
    x, states = x.contiguous(), [state.contiguous() for state in states]
    to = _new_results(call, facts, x, states) if to is None else to
    batch, features = x.shape[-2:]
    if not batch:
        return to
    weights = [w if w is None or w.is_contiguous() else w.contiguous() for w in weights]
    sizes, values = sizes_of(1, batch, heads, dim, 0), call.initial_values
    before, after = addresses(states) or [0] * len(values), addresses(to.last)
    output, saved = to.output.data_ptr(), address(to.saved)
    if facts.multiplies(batch, heads * dim, features):
        first = layers, features, x.data_ptr(), 0, 0, 0, 0, 0  # torch has made no products
        fields = [*sizes, *first, *before, *after, output, saved]
        facts.forward(pack(fields, values, addresses(weights)))
        return to
    sources: Sequence[Tensor] = states
    if not states and any(values):
        equal = [x.new_full((1, batch, heads * dim), value) for value in values]
        sources = [state.expand(layers, -1, -1) for state in equal]
    for layer in range(layers):
        own = weights[layer * facts.weights : (layer + 1) * facts.weights]
        W, R = own[:2]
        below = to.last[0][layer - 1] if layer else x
        # C gets the addresses of these tensors: they must live until the call returns.
        wx = None if W is None else linear(below, W.view(-1, W.shape[-1]))
        product, strides = None, (0, 0, 0)
        if R is not None and sources:
            matrices, cell = matrices_of(R, heads, dim), call.directions[0].cell
            product, strides = recurrent_product(cell, matrices, sources, layer)
        skipped = layer * x.element_size() * batch * heads * dim
        at = [place + skipped if place else 0 for place in (*before, *after)]
        top, kept = output if layer == layers - 1 else 0, saved + skipped * facts.saved
        fields = [*sizes, 1, 0, 0, address(wx), address(product), *strides, *at, top, kept]
        facts.forward(pack(fields, values, addresses(own)))
    return to


def _new_results(call: Call, facts: StepFacts, x: Tensor, states: Sequence[Tensor]) -> Stepped:
    """Return tensors for the results of a step."""
    batch, layers, hidden = x.shape[-2], call.layers, call.heads * call.dim
    # Most inputs have as many features as a layer has units: this is the fastest new tensor then.
    alike = x.shape[-1] == hidden
    output = torch.empty_like(x) if alike else x.new_empty(*x.shape[:-1], hidden)
    last: States
    if states:
        last = tuple([torch.empty_like(state) for state in states])
    else:
        shape = (layers, batch, hidden)
        first = x.new_empty(shape)
        last = (first, *[torch.empty_like(first) for _ in call.initial_values[1:]])
    saved = None
    if call.directions[0].for_backward:
        saved = x.new_empty(layers, batch, call.heads, facts.saved, call.dim)
    return Stepped(output, last, saved)


def run_step_backward(call: Call, tensors: Tensors, backward: StepBackward) -> list[Tensor | None]:
    """Return the gradients of x, the caller's states and the flat weights of each layer."""
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    stepped, gradients, needs = backward
    heads, dim, values = call.heads, call.dim, call.initial_values
    facts = facts_of_step(call.directions[0], x.dtype)
    flat = (x, *states, *weights, *stepped.last, stepped.saved, *gradients)
    read = [t if t is None or t.is_contiguous() else t.contiguous() for t in flat]
    batch, features = x.shape[-2:]
    plane = batch, heads, dim
    if not batch:
        return Tensors(x, states, weights).zeros(needs)
    few = facts.multiplies(batch, heads * dim, features)
    # Where the weights begin, and what the step gave.
    first, lasts = 1 + len(states), 1 + len(states) + len(weights)
    wanted = [needs[0], *[any(needs[1:first])] * len(states), *needs[first:]]
    if not few:
        # torch makes those of x and of matrices.
        wanted[0] = False
        for index in range(first, lasts, facts.weights):
            wanted[index] = wanted[index + 1] = False
    inputs = zip(read[:lasts], wanted, strict=True)
    found = [torch.empty_like(t) if need and t is not None else None for t, need in inputs]
    if needs[0] and weights[0] is None:
        found[0] = torch.zeros_like(x)
    sizes, none = sizes_of(1, batch, heads, dim, 0), [0] * len(values)
    places, d_places = addresses(read), addresses(found)
    before, d_before = places[1:first] or none, d_places[1:first] or none
    if few:
        sizes = sizes._replace(tile_rows=batch)
        first_fields = *sizes, call.layers, features, places[0]
        fields = [*first_fields, *before, *places[lasts:], d_places[0], *d_before, 0]
        facts.backward(pack(fields, values, places[first:lasts] + d_places[first:]))
        return found
    saved, d_y = lasts + len(values), read[lasts + len(values) + 1]
    for layer in range(call.layers - 1, -1, -1):
        d_gates = x.new_empty(batch, heads, facts.gates, dim)
        begin, end = first + layer * facts.weights, first + (layer + 1) * facts.weights
        skipped = layer * x.element_size() * batch * heads * dim
        given, at, d_at = (
            [place + skipped if place else 0 for place in all_layers]
            for all_layers in (before, places[lasts:], d_before)
        )
        at[len(values)], at[len(values) + 1] = places[saved] + skipped * facts.saved, address(d_y)
        fields = [*sizes, 1, 0, 0, *given, *at, 0, *d_at, d_gates.data_ptr()]
        facts.backward(pack(fields, values, places[begin:end] + d_places[begin:end]))
        W, R, cell = read[begin], read[begin + 1], call.directions[0].cell
        if R is not None and needs[begin + 1]:
            own = [s[layer].view(plane) for s in read[1:first]]  # type: ignore[index]
            own = own or [x.new_full(plane, value) for value in values]
            zero, over_time = () if states else call.zero, d_gates.unsqueeze(0)
            found[begin + 1] = recurrent_gradient(cell, over_time, (), own, False, zero)
        if R is not None and states and found[1] is not None:
            d_own = [d[layer].view(plane) for d in found[1:first]]  # type: ignore[index]
            add_recurrent_gradient_of_states(cell, matrices_of(R, heads, dim), d_gates, d_own)
        d_y = None
        if W is None:
            continue
        below = read[lasts][layer - 1] if layer else x  # type: ignore[index]
        columns = _of_inputs(d_gates, facts.inputs)
        if needs[begin]:
            found[begin] = torch.mm(columns.t(), below.view(batch, -1)).view(W.shape)
        if layer or needs[0]:
            d_y = torch.mm(columns, W.view(-1, W.shape[-1]))
    if needs[0] and d_y is not None:
        found[0] = d_y.view(x.shape)
    return found


def _of_inputs(d_gates: Tensor, inputs: int) -> Tensor:
    """Return the gradients of the gates with input in the order of W, (B, N * Gx * D)."""
    batch, heads, gates, dim = d_gates.shape
    if heads == 1:
        return d_gates.view(batch, gates * dim)[:, : inputs * dim]
    return d_gates[:, :, :inputs].reshape(batch, heads * inputs * dim)
