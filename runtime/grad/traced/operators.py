"""Layers of a module as two operators of torch, forward and backward, for compilers and modes.

They are defined by `torch.library.Library`: `custom_op` looks at the memory of all arguments and
results in each call, which takes longer than the launches of a small network. That no result shares
memory with another tensor is held by tests instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...call.call import cell_of, stored_states
from ...call.marks import outside_of_graphs
from ...call.stack import Stack
from ...targets.registry import target_of
from ...targets.stack import states_for, weights_for
from ..function import without_autocast
from ..stack.backward import backward_layers
from ..stack.forward import forward_layers, profiled
from ..stack.sweep import StackSaved
from ..transforms import OPERATOR_TARGETS
from .check import check_backward, check_forward
from .gradients import backward_of_rnn, refuse_second, register_gradients, remember_for_backward
from .known import replays_for
from .schemas import RNN, RNN_BACKWARD, Inputs, Options, kind_of, to_parts, to_results

# Any: torch's library has no types for what is called here.
_LIBRARY: Any = torch.library.Library("rnnc", "FRAGMENT")  # type: ignore[no-untyped-call]
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(RNN, tags=_TAGS)
_LIBRARY.define(RNN_BACKWARD, tags=_TAGS)

Tensors = Sequence[Tensor]


def _rnn(
    x: Tensor, states: Tensors, weights: Tensors, masks: Tensor | None, keep: bool, *others: Any
) -> list[Tensor]:
    """Return the output (T, B, features), the last states, and if `keep` what a backward needs."""
    options = Options(*others)
    stack, inputs = options.stack(x, keep), Inputs(x, states, weights, masks)
    key = kind_of(stack, options, inputs)
    run, replays = partial(_forward, key, stack, options, inputs), replays_for(stack, key)
    with profiled("rnnc::scan"):
        return run() if replays is None else replays.run("rnnc::rnn", inputs.present(), run)


def _forward(key: Hashable, stack: Stack, options: Options, inputs: Inputs) -> list[Tensor]:
    check_forward(key, stack, options, inputs)
    x, states, weights, masks = inputs
    named = weights_for(stack, list(options.spread(weights, None)))
    run = forward_layers(stack, x, states, named, _by_layer(masks))
    return to_results(stack, run)


def _rnn_backward(
    d_y: Tensor | None,
    d_last: Sequence[Tensor | None],
    x: Tensor,
    states: Tensors,
    weights: Tensors,
    masks: Tensor | None,
    results: Tensors,
    needs: Sequence[bool],
    *others: Any,
) -> list[Tensor]:
    """Return the gradients of x, of the states and of the weights, of those that `needs` says."""
    options = Options(*others)
    stack, inputs = options.stack(x, True), Inputs(x, states, weights, masks)
    # Autograd gives it back as the result of a node or not.
    results = [results[0].detach(), *results[1:]]
    missing = tuple([d is None for d in (d_y, *d_last)])
    key = kind_of(stack, options, inputs), missing, len(results), tuple(needs)
    gradients = d_y, *d_last
    run = partial(_backward, key, needs, stack, options, gradients, inputs, results)
    replays = replays_for(stack, key)
    with profiled("rnnc::scan_backward"), without_autocast(x.device.type):
        if replays is None:
            return run()
        tensors = [*inputs.present(), *results, *[d for d in gradients if d is not None]]
        return replays.run("rnnc::rnn_backward", tensors, run)


def _backward(
    key: Hashable,
    needs: Sequence[bool],
    stack: Stack,
    options: Options,
    gradients: Sequence[Tensor | None],
    inputs: Inputs,
    results: Tensors,
) -> list[Tensor]:
    gradients = check_backward(key, stack, options, gradients, inputs, results)
    x, states, weights, masks = inputs
    parts = to_parts(stack, results)
    named = weights_for(stack, list(options.spread(weights, None)), forward=False)
    saved = StackSaved(x, states, named, _by_layer(masks), parts)
    count = 1 + len(states)
    wanted = [*needs[:count], *options.spread(needs[count:], False)]
    firsts = list(states_for(stack, x, x.shape[1], states))
    found = backward_layers(stack, saved, firsts, gradients, wanted, donated=False)
    found[count:] = stack.form.gradients(found[count:], wanted[count:], stack.parts)
    given = (*[True] * count, *options.given)
    own = [d for d, has in zip(found, given, strict=True) if has]
    return _by_themselves([d for d, need in zip(own, needs, strict=True) if need])


def _by_layer(masks: Tensor | None) -> Tensors:
    """Return the mask of each dropout."""
    return () if masks is None else masks.unbind(0)


def _by_themselves(gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the gradients, contiguous, none of which shares memory with another."""
    found, seen = [], set()
    for gradient in gradients:
        assert gradient is not None
        own = gradient.contiguous()
        memory = own.untyped_storage().data_ptr()
        shared = memory in seen or own.storage_offset()
        found.append(own.clone() if shared else own)
        seen.add(memory)
    return found


rnn_op, rnn_backward_op = torch.ops.rnnc.rnn.default, torch.ops.rnnc.rnn_backward.default
for _device in OPERATOR_TARGETS:
    for _op, _kernel in ((rnn_op, _rnn), (rnn_backward_op, _rnn_backward)):
        _run = outside_of_graphs(_kernel)
        _LIBRARY.impl(_op, _run, _device.upper())
register_gradients(_LIBRARY, rnn_op, _rnn, backward_of_rnn, remember_for_backward)
register_gradients(_LIBRARY, rnn_backward_op, _rnn_backward, refuse_second)
torch.library.register_autocast("rnnc::rnn", "cpu", torch.float32, lib=_LIBRARY)


@torch.library.register_fake("rnnc::rnn", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _(
    x: Tensor, states: Tensors, weights: Tensors, masks: Tensor | None, keep: bool, *others: Any
) -> list[Tensor]:
    options, target = Options(*others), target_of(x.device)
    (steps, batch, _), (heads, dim) = x.shape, (options.heads, options.dim)
    hidden, directions = heads * dim, options.directions
    new, parts, count = x.new_empty, options.parts, options.states
    y = new(steps, batch, directions * hidden)
    last = [new(parts, batch, hidden) for _ in range(count)]
    if not keep:
        return [y, *last]
    stored = stored_states(options.cell, (True, *(False,) * (count - 1)), True)
    runs = options.layers if options.joint else parts
    sizes = steps, batch, heads * parts // runs, dim
    saved = target.saved_shape(cell_of(options.cell), sizes, True, options.choice.save)
    kept = [*((steps if wanted else 0, *sizes[1:]) for wanted in stored), saved] * runs
    if runs == options.layers:
        del kept[-1 - count]
    return [y, *last, *(new(shape) for shape in kept)]


@torch.library.register_fake("rnnc::rnn_backward", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _(
    d_y: Tensor | None,
    d_last: Sequence[Tensor | None],
    x: Tensor,
    states: Tensors,
    weights: Tensors,
    masks: Tensor | None,
    results: Tensors,
    needs: Sequence[bool],
    *others: Any,
) -> list[Tensor]:
    inputs = (x, *states, *weights)
    return [t.new_empty(t.shape) for t, need in zip(inputs, needs, strict=True) if need]
