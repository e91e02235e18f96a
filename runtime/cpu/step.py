"""A single step of all layers on the CPU: no tensor over time, and no view of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.call import Call, Tensors
from ..call.facts import facts_of
from ..call.layer_call import LayerCall
from ..call.tensors import States, Stepped
from .arguments import address, addresses, pack
from .compile import cpu_library, plan_of
from .inputs import linear
from .products import matrices_of, recurrent_product
from .tasks import sizes_of

# The kernel multiplies for so few batch rows, or for so small a product of a layer's weights and
# the square of the rows. Beyond, torch's products are faster, since they use a matrix for more rows
# at once, and what a call of torch takes weighs less.
_FEW_ROWS = 16
_FEW = 2**26


class StepFacts(NamedTuple):
    """Kernels and counts of a call.

    Attributes:
        gates: all gates of the cell.
        inputs: gates with an input.
        matrices: of the input or of the states, whichever are more.
        weights: of a layer: as many as `LayerWeights.flat` has.
        saved: values per unit that a backward reads; 0 if none follows.
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
