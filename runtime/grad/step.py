"""A single step of all layers as one node of autograd."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from ..call.forms import TorchForm
from ..call.plain import all_plain, is_watched
from ..call.stack import Stack
from ..call.step_call import StepBackward, StepCall
from ..call.tensors import States, Stepped
from ..process.turns import short_turns_of_backward
from ..program.replays import Replays, replayed
from ..targets.stack import target_for
from .check_saved import plain_gradients
from .function import without_autocast
from .layers import Composed, apart, as_left, differentiable
from .stack.forward import profiled
from .transforms import check_gradients, check_has_operators


class Step(torch.autograd.Function):
    """Node of a single step, with the gradients of input, states and weights."""

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
        """Return the output and the new states.

        `composed` computes a sequence by torch operations. `given` counts the caller's states:
        none, or all. x is (B, input), or (1, B, input) where the target runs a sequence of one step
        as a step. `flat` has the caller's states and the parameters.
        """
        run = partial(_forward, stack, given, x, flat)
        with profiled("rnnc::step"):
            found = replayed(replays, "forward", (x, *flat), run, alike=True)
        y, *new, kept = found
        saved = (x, *flat, kept)
        ctx.stack, ctx.composed, ctx.given = stack, composed, given
        ctx.inputs, ctx.device, ctx.replays = 1 + len(flat), x.device, replays
        ctx.kinds = [None if t is None else (t.shape, t.dtype) for t in saved]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        # A caller may change new states in place, as those of torch's modules: see `_new_states`.
        # None where hooks say what a graph keeps, as those of `torch.utils.checkpoint` do.
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
        ctx.new = None if hooks else [(state.detach(), state._version) for state in new]
        return y, *new

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Return the gradient of each input that needs one."""
        stack: Stack = ctx.stack
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[4:]
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_has_operators(stack.calls[0].target)
            if not isinstance(stack.form, TorchForm):  # torch's operations take a batch
                check_gradients(gradients)
            inputs = apart(saved[: ctx.inputs])
            again = partial(composed_step, ctx.composed, *_named(ctx, inputs))
            return None, None, None, None, *differentiable(again, inputs, needs, gradients)
        short_turns_of_backward(ctx.device)
        new = _new_states(ctx, saved)
        run = partial(_backward, ctx, saved, new, gradients, needs)
        with profiled("rnnc::step_backward"), without_autocast(ctx.device.type):
            key = needs, tuple([d is None for d in gradients])
            found = replayed(ctx.replays, key, (*saved, *new, *gradients), run)
        return None, None, None, None, *found


def _forward(stack: Stack, given: int, x: Tensor, flat: Sequence[Tensor | None]) -> list[Any]:
    """Return the output, the new states, and what the kernels saved."""
    states: Sequence[Any] = flat[:given]
    step = StepCall(stack, x, states, stack.flat_weights(flat[given:]))
    run = target_for(stack).step(step)
    return [run.output, *run.last, run.saved]


def _backward(
    ctx: Any,
    saved: Sequence[Any],
    new: States,
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """Return the gradient of each input, by kernels."""
    stack: Stack = ctx.stack
    if not all_plain(gradients):
        check_gradients(gradients)
        gradients = tuple(plain_gradients(gradients))
    saved = _left(ctx, saved)
    x, states, parameters = _named(ctx, saved[: ctx.inputs])
    stepped = Stepped(new[0], new, saved[ctx.inputs])
    weights, first = stack.flat_weights(parameters), 1 + ctx.given
    wanted = [*needs[:first], *stack.form.needs(needs[first:], stack.parts)]
    backward = StepBackward(StepCall(stack, x, states, weights), stepped, gradients, wanted)
    found = target_for(stack).step_backward(backward)
    return [*found[:first], *stack.form.gradients(found[first:], needs[first:], stack.parts)]


def _new_states(ctx: Any, saved: Sequence[Any]) -> States:
    """Return the new states as the forward computed them.

    They are computed again where the caller has changed them since, under hooks on saved tensors,
    and in a second backward: a node keeps none after its first one.
    """
    kept, ctx.new = ctx.new, None
    if kept is not None and all(state._version == version for state, version in kept):
        return tuple([state for state, _ in kept])
    x, *flat = _left(ctx, saved)[: ctx.inputs]
    return tuple(_forward(ctx.stack, ctx.given, x, flat)[1:-1])


def composed_step(
    composed: Composed, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor | None]
) -> tuple[Tensor, States]:
    """Run a single step as a sequence of one, by `composed`, on x (B, input) or (1, B, input).

    `states` are (layers, B, hidden) each before the step; empty for their initial values.
    """
    if x.ndim == 3:
        return composed(x, states, weights, ())
    y, last = composed(x.unsqueeze(0), states, weights, ())
    return y[0], last


# As of `run_node`.
run_step_node: Callable[..., tuple[Tensor, ...]] = super(torch.autograd.Function, Step).apply


# By what a node saved: whether tensors have the types, dtypes, devices, sizes and strides of some
# that were as its forward had saved them. One call of C; it holds no tensor.
_ALIKE: dict[Hashable, Callable[..., bool]] = {}
_MOST = 256


def _left(ctx: Any, saved: Sequence[Any]) -> Sequence[Any]:
    """Return what `as_left` gives, by one comparison where like tensors came before."""
    tensors = [tensor for tensor in saved if tensor is not None]
    key = (ctx.stack, ctx.given, ctx.kinds[0], len(tensors))
    alike = _ALIKE.get(key)
    if alike is not None and alike(*tensors):
        return saved
    found = as_left(ctx, saved)
    if all(map(is_, found, saved)) and len(set(map(id, tensors))) == len(tensors):
        if len(_ALIKE) >= _MOST:
            _ALIKE.clear()
        guards = TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        _ALIKE[key] = guards.check
    return found


def _named(ctx: Any, inputs: Sequence[Any]) -> tuple[Tensor, Sequence[Tensor], Sequence[Any]]:
    """Return the inputs by name: x, the caller's states and parameters."""
    return inputs[0], inputs[1 : 1 + ctx.given], inputs[1 + ctx.given :]
