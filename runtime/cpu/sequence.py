"""All steps of all layers on the CPU in one call of the library, where no backward follows."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..call.call import Call
from ..call.facts import facts_of
from ..call.tensors import SomeTensors, States
from .arguments import Field, run
from .compile import cpu_library, plan_of
from .tasks import multiplies_features, parted_pairs, sizes_of


def run_sequence(
    call: Call, x: Tensor, states: Sequence[Tensor], parameters: SomeTensors
) -> tuple[Tensor, States] | None:
    """Run all layers without gradients; None if the caller has to run each layer by itself."""
    steps, batch, features = x.shape
    layers, heads, dim = call.layers, call.heads, call.dim
    if len(call.directions) > 1 or (call.dropout and layers > 1) or not batch:
        return None
    layer_call, hidden = call.directions[0], heads * dim
    counts = facts_of(layer_call.cell).counts
    if not multiplies_features(steps, batch, counts.inputs * hidden * max(features, hidden)):
        return None
    library = cpu_library(layer_call.cell, plan_of(x.dtype, layer_call.choice.reverse))
    x = x if x.stride(2) == 1 else x.contiguous()
    weights = call.flat_weights(parameters)
    flat = [w if w is None or w.is_contiguous() else w.contiguous() for w in weights]
    states = [state.contiguous() for state in states]
    y = x.new_empty(steps, batch, hidden)
    values = call.initial_values
    last = tuple([x.new_empty(layers, batch, hidden) for _ in values])
    given: Sequence[Field] = states or [None] * len(values)
    sizes = sizes_of(steps, batch, heads, dim, parted_pairs(layer_call.cell))
    own: list[Field] = [layers, features, x, *x.stride()[:2], *given, *last, y, *values, *flat]
    run(library.rnnc_layers, *sizes, *own)
    return y, last
