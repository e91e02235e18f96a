"""All layers of a module as one node of autograd: input products, kernels and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..check.plain import all_plain, is_watched
from ..tensors import States, weights_from
from .check_saved import check_as_left, plain_gradients
from .function import Likeness, spent_error, without_autocast
from .stack import Stack, forward_layers, profiled
from .stack_backward import StackSaved, backward_layers, saved_by_name
from .transforms import check_gradients, check_has_operators

# The same computation by torch operations that autograd can differentiate again: output and last
# states from x, initial states, flat weights, and the mask of each dropout.
Composed = Callable[
    [Tensor, Sequence[Tensor], Sequence[Tensor | None], Sequence[Tensor]], tuple[Tensor, States]
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
            flat: the caller's states, and the flat weights of each direction of each layer.
        """
        states: Any = flat[:given]
        weights = weights_from(flat[given:], stack.parts)
        with profiled("rnnc::scan"):
            run = forward_layers(stack, x, states, weights)
        results = [(*result.states, result.saved) for result in run.results]
        saved = StackSaved(x, states, weights, run.masks, results).flat()
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
            check_has_operators(ctx.stack.calls[0].target)
            check_gradients(gradients)
            named, needs = saved_by_name(ctx.stack, ctx.given, saved), ctx.needs_input_grad[3:]
            inputs = saved[: ctx.inputs]
            weights = inputs[1 + ctx.given :]
            again = partial(ctx.composed, named.x, named.states, weights, named.masks)
            return None, None, None, *differentiable(again, inputs, needs, gradients)
        if not all_plain(gradients):
            check_gradients(gradients)
            gradients = tuple(plain_gradients(gradients))
        with profiled("rnnc::scan_backward"), without_autocast(ctx.device.type):
            found = saved_by_name(ctx.stack, ctx.given, as_left(ctx, saved))
            return None, None, None, *_backward(ctx, found, gradients)


# Without the search of `torch.autograd.Function.apply` for transforms of torch.func: a call under
# one does not come here.
run_node: Callable[..., tuple[Tensor, ...]] = super(torch.autograd.Function, Layers).apply


def _backward(
    ctx: Any, saved: StackSaved, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    stack: Stack = ctx.stack
    firsts = ctx.constants
    if firsts is None:
        firsts = list(stack.initial_states(saved.x, saved.x.shape[1], saved.states))
    kept = [result[-1] for result in saved.results]
    # Unless the caller retains the graph, no other backward reads what the kernels saved.
    donated = not (
        torch._C._autograd._get_current_graph_task_keep_graph()
        or any(tensor.is_inference() for tensor in kept)
    )
    before = [tensor._version for tensor in kept] if donated else []
    try:
        needs = ctx.needs_input_grad[3:]
        return backward_layers(stack, saved, firsts, gradients, needs, donated)
    except BaseException:
        ctx.spent = donated and before != [tensor._version for tensor in kept]
        raise


def as_left(ctx: Any, saved: Sequence[Any]) -> Sequence[Any]:
    """The saved tensors of a node as kernels can read them.

    Args:
        ctx: of the node: `stack`, `given`, `device`, and the shape and dtype of each in `kinds`.
        saved: as autograd gives them back.

    Raises:
        TensorError: a hook on saved tensors gave back another shape, dtype or device.
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


def differentiable(
    again: Callable[[], tuple[Tensor, States]],
    inputs: Sequence[Any],
    needs: Sequence[bool],
    gradients: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradients of a call by operations that a tracer sees and autograd can differentiate.

    Args:
        again: computes the output and the last states of the call by such operations.
        inputs: of the call.
        needs: which of them need a gradient.
        gradients: of the output and the last states; None for zero.
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
