"""Gradients of the operators of all layers, as autograd sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C, Tensor
from torch._library.autograd import Info, make_autograd_impl

from ...call.marks import outside_of_graphs
from ...errors import BackwardError, SecondOrderError
from ...targets.registry import target_of
from ..transforms import OPERATOR_TARGETS, check_gradients
from .schemas import Options

# Where nothing but the kernels of a device is left for the dispatcher to find.
_KERNELS_ALONE = frozenset(
    _C.DispatchKeySet(getattr(_C.DispatchKey, device.upper())).raw_repr()
    for device in OPERATOR_TARGETS
)


def register_gradients(
    library: Any,
    op: Any,
    kernel: Callable[..., list[Tensor]],
    backward: Callable[..., Any],
    remember: Callable[..., None] | None = None,
) -> None:
    """Register the gradient of an operator, as `torch.library.register_autograd` does.

    A compiled graph computes gradients by operators of its own, so autograd has nothing to record
    there. Then the `kernel` is called without another round through the dispatcher, which converts
    all arguments twice. `remember` saves what `backward` needs.
    """
    recorded: Callable[..., Any] = make_autograd_impl(op, Info(backward, remember))

    @outside_of_graphs
    def run(keys: Any, *arguments: Any) -> Any:
        below = (keys & _C._after_autograd_keyset).raw_repr()
        if _C.is_grad_enabled() or below not in _KERNELS_ALONE:
            return recorded(keys, *arguments)
        with _C._AutoDispatchBelowAutograd():
            return kernel(*arguments)

    library.impl(op, run, "Autograd", with_keyset=True)


def remember_for_backward(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    """Save what the backward of `rnnc::rnn` needs."""
    x, states, weights, masks, keep, *others = inputs
    if not keep:
        raise BackwardError(
            "a backward through rnnc::rnn",
            "rnnc::rnn was called with keep=False on tensors that need gradients",
            "keep=True, or a call without gradients",
            "keep=True, or torch.no_grad() around the call",
        )
    options = Options(*others)
    if not torch.compiler.is_compiling():  # torch's flags may change before the backward
        rounds = target_of(x.device).rounds(x.dtype, options.choice.precision)
        options = options._replace(precision="tf32" if rounds else "ieee")
    kept = [output[0], *output[1 + options.states :]]
    ctx.options, ctx.counts = options, (len(states), len(weights))
    ctx.mark_non_differentiable(*kept[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, masks, *states, *weights, *kept)


def backward_of_rnn(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Return a gradient for each argument of `rnnc::rnn`."""
    if not torch.compiler.is_compiling():
        check_gradients(gradients)
    tensors, lists = iter(ctx.saved_tensors), []
    x, masks = next(tensors), next(tensors)
    for count in ctx.counts:
        lists.append([next(tensors) for _ in range(count)])
    need_x, need_states, need_weights, *_ = ctx.needs_input_grad
    needs = [need_x, *need_states, *need_weights]
    d_last = list(gradients[1 : 1 + ctx.options.states])
    results = torch.ops.rnnc.rnn_backward(
        gradients[0], d_last, x, *lists, masks, list(tensors), needs, *ctx.options
    )
    found = iter(results)
    d_x, *d_inputs = [next(found) if need else None for need in needs]
    count = ctx.counts[0]
    # No gradient for the masks, for keep and for the options, of which torch leaves out a default.
    others = 2 + len(ctx.options.passed)
    return (d_x, d_inputs[:count], d_inputs[count:], *[None] * others)


def refuse_second(*_: Any) -> Any:
    """Refuse a gradient of a gradient."""
    raise SecondOrderError(
        "gradient of a gradient",
        "a backward through rnnc::rnn_backward",
        "a first derivative: the kernels compute no others",
        'backend="reference", which autograd can differentiate to any order',
    )
