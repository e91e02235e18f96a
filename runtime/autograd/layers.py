"""All layers of a module as one node of autograd: input products, kernels and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..check.plain import all_plain, is_watched
from ..targets import TARGETS
from ..tensors import Saved, States
from .check_saved import check_as_left, plain_gradients
from .function import Likeness, spent_error, without_autocast
from .stack import (
    LayerWeights,
    Stack,
    forward_layers,
    profiled,
    project_input,
    stacked,
    weights_from,
)
from .transforms import check_gradients, check_has_operators

# The same computation by torch operations that autograd can differentiate again: output and last
# states from x, initial states, weights, and the mask of each dropout.
Composed = Callable[
    [Tensor, Sequence[Tensor], Sequence[LayerWeights], Sequence[Tensor]], tuple[Tensor, States]
]


class Layers(torch.autograd.Function):
    """All layers of a module, with the gradients of input, states and weights."""

    @staticmethod
    def forward(
        ctx: Any, stack: Stack, composed: Composed, given: int, x: Tensor, *flat: Tensor | None
    ) -> tuple[Tensor, ...]:
        """The output and the last states.

        Args:
            ctx: of the node.
            stack: the call.
            composed: computes the same by torch operations.
            given: how many states the caller gives: none, or all.
            x: (T, B, input).
            flat: the caller's states, and the flat weights of each layer.
        """
        states: Any = flat[:given]
        with profiled("rnnc::scan"):
            run = forward_layers(stack, x, states, weights_from(flat[given:], stack.layers))
        saved = (
            x,
            *flat,
            *run.masks,
            *(t for result in run.results for t in (*result.states, result.saved)),
        )
        ctx.stack, ctx.composed, ctx.given, ctx.spent = stack, composed, given, False
        ctx.inputs, ctx.device = 1 + len(flat), x.device
        ctx.constants = None if given else run.first  # those of the caller may change
        ctx.kinds = [None if t is None else (t.shape, t.dtype) for t in saved]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        # A view of a tensor that was made here could not be changed in place.
        return run.y.detach(), *(last.detach() for last in run.last)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """The gradient of each input that needs one."""
        if ctx.spent:
            raise spent_error()
        saved = ctx.saved_tensors
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_has_operators(ctx.stack.call.target)
            check_gradients(gradients)
            return None, None, None, *_differentiable(ctx, saved, gradients)
        if not all_plain(gradients):
            check_gradients(gradients)
            gradients = tuple(plain_gradients(gradients))
        with profiled("rnnc::scan_backward"), without_autocast(ctx.device.type):
            return None, None, None, *_backward(ctx, _checked(ctx, saved), gradients)


class _Tensors(NamedTuple):
    """What a backward reads, as the forward saved it.

    Attributes:
        x: the input.
        states: the caller's.
        weights: of each layer.
        masks: of each dropout.
        results: of each layer: its states at all steps, and what its kernel saved.
    """

    x: Tensor
    states: Sequence[Tensor]
    weights: list[LayerWeights]
    masks: Sequence[Tensor]
    results: list[Sequence[Tensor]]


def _named(ctx: Any, saved: Sequence[Any]) -> _Tensors:
    """The saved tensors by name."""
    stack: Stack = ctx.stack
    x, states, weights = saved[0], saved[1 : 1 + ctx.given], saved[1 + ctx.given : ctx.inputs]
    dropped = stack.layers - 1 if stack.dropout else 0
    results = saved[ctx.inputs + dropped :]
    count = len(results) // stack.layers
    return _Tensors(
        x,
        states,
        weights_from(weights, stack.layers),
        saved[ctx.inputs : ctx.inputs + dropped],
        [results[first : first + count] for first in range(0, len(results), count)],
    )


def _checked(ctx: Any, saved: Sequence[Any]) -> _Tensors:
    """The saved tensors as kernels can read them.

    Raises:
        TensorError: a hook on saved tensors gave back another shape, dtype or device.
    """
    likeness = Likeness((ctx.stack, ctx.given, *ctx.kinds[0], ctx.device), saved)
    if not likeness.seen():
        found = [
            None
            if kind is None
            else check_as_left(f"saved tensor {i}", tensor, kind[0], kind[1], ctx.device)
            for i, (tensor, kind) in enumerate(zip(saved, ctx.kinds, strict=True))
        ]
        if all(new is old for new, old in zip(found, saved, strict=True)):
            likeness.remember()
        saved = found
    return _named(ctx, saved)


def _backward(ctx: Any, saved: _Tensors, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradients of x, the caller's states and the weights, from the last layer to the first."""
    stack: Stack = ctx.stack
    x, states, weights, masks, results = saved
    target = TARGETS[stack.call.target]
    steps, batch, _ = x.shape
    plane = (batch, stack.heads, stack.dim)
    hidden = stack.heads * stack.dim
    keep = 1 / (1 - stack.dropout) if stack.dropout < 1 else 0.0
    needs = ctx.needs_input_grad[3:]
    count = len(weights[0].flat())
    firsts = ctx.constants or list(stack.initial_states(x, batch, states))
    again = target.computes_gates_again(stack.call.choice.save)
    kept_graph = torch._C._autograd._get_current_graph_task_keep_graph()
    d_y, *d_lasts = gradients
    d_weights: list[Tensor | None] = []
    d_firsts: list[Sequence[Tensor]] = []
    for layer in range(stack.layers - 1, -1, -1):
        own, (*sequences, kept) = weights[layer], results[layer]
        below = x
        if layer:
            below = results[layer - 1][0].view(steps, batch, hidden)
            if masks:
                below = torch.ops.aten.native_dropout_backward(below, masks[layer - 1], keep)
        wx = project_input(stack, below, own.W) if again else None
        d_states = [
            None if d_y is None else d_y.view(steps, *plane),
            *[None] * (len(sequences) - 1),
        ]
        d_last = [None if d is None else d[layer].view(plane) for d in d_lasts]
        donated = not (kept_graph or kept.is_inference())
        before = kept._version if donated else 0
        read = Saved(
            wx,
            own.R,
            own.b if again else None,
            firsts[layer],
            own.R_diag,
            own.params,
            sequences,
            kept,
        )
        try:
            found = target.backward(stack.call, read, d_states, d_last, donated)
        except BaseException:
            ctx.spent = ctx.spent or (donated and kept._version != before)
            raise
        ctx.spent = ctx.spent or donated
        first = 1 + ctx.given + layer * count
        d_y, d_W = None, None
        if own.W is not None:
            wanted = bool(layer) or needs[0], needs[first]
            d_y, d_W = target.project_gradients(found.d_wx, below, own.W, wanted, stack.call.tf32)
        elif layer or needs[0]:
            d_y = torch.zeros_like(below)
        if layer and masks and d_y is not None:
            d_y = torch.ops.aten.native_dropout_backward(d_y, masks[layer - 1], keep)
        given = found.given(read, own.b is not None)
        d_weights[:0] = [d_W, given.R, given.b, given.R_diag, *given.params]
        d_firsts.insert(0, found.d_initial_states)
    ctx.spent = False
    d_states = [stacked(stack, each) for each in zip(*d_firsts, strict=True)] if ctx.given else []
    return [d_y, *d_states, *d_weights]


def _differentiable(
    ctx: Any, saved: Sequence[Any], gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The same gradients by operations that a tracer sees, and that autograd can differentiate."""
    named, inputs = _named(ctx, saved), saved[: ctx.inputs]
    needs = ctx.needs_input_grad[3:]
    with torch.enable_grad():
        y, last = ctx.composed(named.x, named.states, named.weights, named.masks)
    pairs = [(o, g) for o, g in zip((y, *last), gradients, strict=True) if g is not None]
    wanted = [t for t, need in zip(inputs, needs, strict=True) if need]
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
