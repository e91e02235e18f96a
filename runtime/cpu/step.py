"""A single step of all layers on the CPU, forward and backward: no tensor over time."""

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
from ..call.tensors import SomeTensors, States, Stepped
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
    """Run all layers over one step, by a kernel alone or by torch's products and a kernel.

    A step and a sequence of one step have the same products, pointwise maps and bits. `to` has
    contiguous tensors for the results, other than the states; None for new ones.
    """
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    facts, hidden = facts_of_step(call.directions[0], x.dtype), call.heads * call.dim
    x, states = x.contiguous(), [state.contiguous() for state in states]
    to = _new_results(call, facts, x, states) if to is None else to
    batch, features = x.shape[-2:]
    if not batch:
        return to
    weights = [w if w is None or w.is_contiguous() else w.contiguous() for w in weights]
    if not facts.multiplies(batch, hidden, features):
        _step_by_torch(call, Tensors(x, states, weights), facts, to)
        return to
    values = call.initial_values
    fields = [
        *sizes_of(1, batch, call.heads, call.dim, 0),
        *(call.layers, features, x.data_ptr(), 0, 0, 0, 0, 0),
        *(addresses(states) or [0] * len(values)),
        *addresses(to.last),
        to.output.data_ptr(),
        address(to.saved),
    ]
    facts.forward(pack(fields, values, addresses(weights)))
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


def _step_by_torch(call: Call, tensors: Tensors, facts: StepFacts, to: Stepped) -> None:
    """Run a step on contiguous tensors, layer by layer, with torch's products."""
    x, states, weights, *_ = tensors
    batch, heads, dim, values = x.shape[-2], call.heads, call.dim, call.initial_values
    shape, rows = (1, batch, heads * dim), x.element_size() * batch * heads * dim
    sources: Sequence[Tensor] = states
    if not states and any(values):
        sources = [x.new_full(shape, value).expand(call.layers, -1, -1) for value in values]
    sizes, saved = sizes_of(1, batch, heads, dim, 0), address(to.saved)
    before, after = addresses(states) or [0] * len(values), addresses(to.last)
    for layer in range(call.layers):
        own = weights[layer * facts.weights : (layer + 1) * facts.weights]
        W, R = own[:2]
        below = to.last[0][layer - 1] if layer else x
        # C gets the addresses of these tensors: they must live until the call returns.
        wx = None if W is None else linear(below, W.view(-1, W.shape[-1]))
        product, strides = None, (0, 0, 0)
        if R is not None and sources:
            matrices = matrices_of(R, heads, dim)
            product, strides = recurrent_product(call.directions[0].cell, matrices, sources, layer)
        top = layer == call.layers - 1
        fields = [
            *sizes,
            *(1, 0, 0, address(wx), address(product), *strides),
            *before,
            *after,
            to.output.data_ptr() if top else 0,
            saved,
        ]
        facts.forward(pack(fields, values, addresses(own)))
        before = [state + rows for state in before] if states else before
        after = [state + rows for state in after]
        saved += rows * facts.saved


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
