"""Single steps of all layers of a module: by kernels of their own, or as sequences of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from ..call.settings import Settings
from ..call.tensors import States
from ..grad.stack.forward import profiled
from ..grad.step import run_step_node
from ..process.turns import short_turns
from ..program.replays import replayed
from ..targets.stack import target_for
from .layer_by_layer import composed
from .layers import one_step, plain_call, scan_layers
from .plain_call import PlainCall


def plain_step(
    settings: Settings,
    training: bool,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
) -> PlainCall | None:
    """Return what runs a step by kernels of its own; None where it runs as a sequence of one.

    x is (B, input). `states` are (layers, B, hidden) each before the step; None for each state's
    `init`.
    """
    if settings.cell.inputs or (training and settings.dropout and settings.layers > 1):
        return None
    found = plain_call(settings, 0.0, x, tuple(states or ()), weights)
    return found if found is not None and target_for(found.stack).takes_steps else None


def run_plain_step(settings: Settings, call: PlainCall) -> tuple[Tensor, States]:
    """Run a step that `plain_step` found; the results are those of `step_as_sequence`."""
    stack, x, states, weights, needs_grad, replays, *_ = call
    if needs_grad:
        again = partial(composed, settings, 0.0)
        with short_turns(x.device):
            y, *new = run_step_node(stack, again, len(states), replays, x, *states, *weights)
        return y, tuple(new)
    tensors = (x, *states, *weights)
    with profiled("rnnc::step"), short_turns(x.device):
        y, *last = replayed(replays, "step", tensors, partial(one_step, call), alike=True)
    return y, tuple(last)


def step_as_sequence(
    settings: Settings,
    training: bool,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
    unweighted: Sequence[Tensor] = (),
) -> tuple[Tensor, States]:
    """Run a step as a sequence of one; arguments are as in `plain_step`.

    `unweighted` is as in `ScanInputs`, of one step. The results are the output of the last layer,
    (B, hidden), and each new state.
    """
    x = x.unsqueeze(0)
    y, last = scan_layers(settings, training, x, states, weights, unweighted=unweighted)
    return y[0], last
