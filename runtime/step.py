"""A single step of all layers of a module: by kernels of its own, or as a sequence of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from .autograd.stack import profiled
from .autograd.step import run_step_node
from .layers import Settings, composed, plain_call, scan_layers
from .targets import stepping
from .tensors import States


def step_layers(
    settings: Settings,
    training: bool,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
) -> tuple[Tensor, States]:
    """Run all layers of a module over one step.

    Args:
        settings: of the module.
        training: whether features are dropped between layers.
        x: (B, input).
        states: before the step, (layers, B, hidden) each; None for each state's `init`.
        weights: the `LayerWeights.flat` of each layer, one after the other.

    Returns:
        The output of the last layer, (B, hidden), and each new state.
    """
    dropout = settings.dropout if training and settings.layers > 1 else 0.0
    given = tuple(states or ())
    found = None if dropout else plain_call(settings, 0.0, x, given, weights)
    target = None if found is None else stepping(found.stack.target)
    if found is None or target is None:
        y, last = scan_layers(settings, training, x.unsqueeze(0), states, weights)
        return y[0], last
    stack, x, given, weights, needs_grad = found
    if not needs_grad:
        with profiled("rnnc::step"):
            stepped = target.step(stack, x, given, weights)
        return stepped.output, stepped.last
    again = partial(composed, settings, 0.0)
    y, *new = run_step_node(stack, again, len(given), x, *given, *weights)
    return y, tuple(new)
