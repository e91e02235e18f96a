"""Layers of a module as one node of autograd: input products, kernels and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ..call.forms import TorchForm
from ..call.plain import all_plain, is_watched
from ..call.stack import Stack
from ..call.tensors import States
from ..process.turns import short_turns_of_backward
from ..program.replays import Replays, replayed
from ..targets.stack import states_for, weights_for
from .check_saved import check_as_left, plain_gradients
from .function import Likeness, spent_error, without_autocast
from .rows import layer_rows
from .stack.backward import backward_layers
from .stack.forward import forward_layers, profiled
from .stack.sweep import saved_by_name
from .transforms import check_gradients, check_has_operators

# The same computation by torch operations that autograd can differentiate again: output and last
# states from x, initial states, flat weights, the mask of each dropout, lengths and resets.
Composed = Callable[..., tuple[Tensor, States]]


class Layers(torch.autograd.Function):
    """Node of all layers of a module, with the gradients of input, states and weights."""

    @staticmethod
    def forward(
        ctx: Any,
        stack: Stack,
        composed: Composed,
        given: int,
        replays: Replays | None,
        x: Tensor,
        *flat: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Return the output and the last states.

        `composed` computes the same by torch operations. `given` counts the caller's states: none,
        or all. x is (T, B, input), or (total, input) of packed rows. `flat` has the caller's
        states, what `Ragged.tensors` gave, the cell's inputs, and the parameters.
        """
        run = partial(_forward, stack, given, x, flat)
        with profiled("rnnc::scan"):
            found = replayed(replays, "forward", (x, *flat), run, alike=True)
        results = 1 + len(stack.initial_values)  # of the node
        saved = (x, *flat, *found[results:])
        ctx.stack, ctx.composed, ctx.given, ctx.spent = stack, composed, given, False
        ctx.inputs, ctx.device, ctx.replays = 1 + len(flat), x.device, replays
        ctx.kinds = [None if t is None else (t.shape, t.dtype) for t in saved]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        # A view of a tensor that was made here could not be changed in place.
        return tuple([result.detach() for result in found[:results]])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Return the gradient of each input that needs one."""
        if ctx.spent:
            raise spent_error()
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[4:]
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_has_operators(ctx.stack.calls[0].target)
            if not isinstance(ctx.stack.form, TorchForm):  # torch's operations take a batch
                check_gradients(gradients)
            inputs = apart(saved[: ctx.inputs])
            named = saved_by_name(ctx.stack, ctx.given, (*inputs, *saved[ctx.inputs :]))
            weights, masks = inputs[named.others :], named.masks
            again = partial(ctx.composed, named.x, named.states, weights, masks, named.ragged)
            if named.unweighted:
                again = partial(again, named.unweighted)
            return None, None, None, None, *differentiable(again, inputs, needs, gradients)
        short_turns_of_backward(ctx.device)
        # Unless the caller retains the graph, no other backward reads what the kernels saved.
        retained = torch._C._autograd._get_current_graph_task_keep_graph()
        run = partial(_backward, ctx, saved, gradients, needs, retained)
        tensors = [tensor for tensor in (*saved, *gradients) if tensor is not None]
        before = list(map(_version, tensors))
        with profiled("rnnc::scan_backward"), without_autocast(ctx.device.type):
            try:
                key = needs, retained, tuple([d is None for d in gradients])
                found = replayed(ctx.replays, key, tensors, run)
            except BaseException:
                ctx.spent = before != list(map(_version, tensors))
                raise
        return None, None, None, None, *found


# Without the search of `torch.autograd.Function.apply` for transforms of torch.func: a call under
# one does not come here.
run_node: Callable[..., tuple[Tensor, ...]] = super(torch.autograd.Function, Layers).apply


def _forward(stack: Stack, given: int, x: Tensor, flat: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the results of the node, and what its backward reads besides its inputs."""
    states, rows, unweighted, parameters = stack.named(given, flat)
    weights = weights_for(stack, parameters)
    run = forward_layers(stack, x, states, weights, ragged=rows, unweighted=unweighted)
    kept = [tensor for result in run.results for tensor in (*result.states, result.saved)]
    return [run.y, *run.last, *run.masks, *kept, *(run.made or ())]


def _backward(
    ctx: Any,
    saved: Sequence[Any],
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
    retained: bool,
) -> list[Tensor | None]:
    """Return the gradient of each input, by kernels."""
    stack: Stack = ctx.stack
    if not all_plain(gradients):
        check_gradients(gradients)
        gradients = plain_gradients(gradients)
    named = saved_by_name(stack, ctx.given, as_left(ctx, saved))
    batch = layer_rows(stack, named.x, named.ragged).sizes[1]
    firsts = list(states_for(stack, named.x, batch, named.states))
    donated = not (retained or any(result[-1].is_inference() for result in named.results))
    first = named.others
    wanted = [*needs[:first], *stack.form.needs(needs[first:], stack.parts)]
    found = backward_layers(stack, named, firsts, gradients, wanted, donated)
    d_weights = stack.form.gradients(found[first:], needs[first:], stack.parts)
    return [*found[:first], *d_weights]


_version = attrgetter("_version")


def as_left(ctx: Any, saved: Sequence[Any]) -> Sequence[Any]:
    """Return the saved tensors of a node as kernels can read them.

    `ctx` has `stack`, `given`, `device`, and the shape and dtype of each in `kinds`. A
    `TensorError` is raised if a hook on saved tensors gave back another shape, dtype or device.
    """
    likeness = Likeness((ctx.stack, ctx.given, *ctx.kinds[0], ctx.device), saved)
    if likeness.seen():
        return saved
    found = [
        None
        if kind is None
        else check_as_left(f"saved tensor {i}", tensor, kind[0], kind[1], ctx.device)
        for i, (tensor, kind) in enumerate(zip(saved, ctx.kinds, strict=True))
    ]
    if all(new is old for new, old in zip(found, saved, strict=True)):
        likeness.remember()
    return found


def apart(inputs: Sequence[Any]) -> list[Any]:
    """Give each input of a call a node of its own in the graph.

    One may depend on another: states of an earlier call depend on the same weights. The gradient of
    weights is that of this call alone, since autograd adds the rest itself.
    """
    with torch.enable_grad():
        return [t.view_as(t) if t is not None and t.requires_grad else t for t in inputs]


def differentiable(
    again: Callable[[], tuple[Tensor, States]],
    inputs: Sequence[Any],
    needs: Sequence[bool],
    gradients: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Return the gradients of a call by operations that a tracer sees and autograd differentiates.

    `again` computes the output and the last states by such operations, from `inputs` that `apart`
    gave. `gradients` are of its results; None for zero.
    """
    with torch.enable_grad():
        y, last = again()
    pairs = [(o, g) for o, g in zip((y, *last), gradients, strict=True) if g is not None]
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
