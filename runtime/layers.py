"""All layers of a module over time: as one node of autograd, or layer by layer by operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..cellspec.cell import CellSpec
from .autograd.layers import run_node
from .autograd.stack import LayerWeights, Stack, profiled, run_layers, weights_from
from .call import Choice, Order, call_of
from .check.plain import all_plain, any_tangent, is_watched
from .layers_call import wavefront_error
from .scan import resolve_backend, run_scan
from .targets import TARGETS, JointTarget, runs_one_step, target_of
from .tensors import ScanInputs, States

# What autocast casts to the dtype of a call.
_CAST = frozenset((torch.float32, torch.bfloat16, torch.float16))
_needs_grad = attrgetter("requires_grad")


class Settings(NamedTuple):
    """What a module is, besides its weights.

    Attributes:
        cell: the cell.
        layers: their number.
        both: whether each layer runs in both directions of time.
        heads: of each direction of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers, in training.
        backend: as in `rnnc.scan`.
        choice: among the kernels of a GPU.
        order: whether layers run at the same time.
    """

    cell: CellSpec
    layers: int
    both: bool
    heads: int
    dim: int
    dropout: float
    backend: str
    choice: Choice
    order: Order = "auto"

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choice of each direction of a layer."""
        one = self.choice
        return (one, one._replace(reverse=True)) if self.both else (one,)


def scan_layers(
    settings: Settings,
    training: bool,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
) -> tuple[Tensor, States]:
    """Run all layers of a module.

    Args:
        settings: of the module.
        training: whether features are dropped between layers.
        x: (T, B, input).
        states: before the first step, (layers * directions, B, hidden) each; None for each state's
            `init`.
        weights: the `LayerWeights.flat` of each direction of each layer, one after the other.

    Returns:
        The output of the last layer, (T, B, directions * hidden), and each state after the last
        step.
    """
    dropout = settings.dropout if training else 0.0
    given = tuple(states or ())
    found = plain_call(settings, dropout, x, given, weights)
    if settings.order == "wavefront" and settings.layers > 1 and len(x) > 1:
        _check_wavefront(settings, x, found)
    if found is None:
        return composed(settings, dropout, x, given, weights)
    stack, x, given, weights, needs_grad = found
    if not needs_grad:
        if len(x) == 1 and not (settings.both or dropout) and runs_one_step(stack.target):
            with profiled("rnnc::scan"):
                stepped = stack.target.step(stack, x[0], given, weights)
            return stepped.output.unsqueeze(0), stepped.last
        return run_layers(stack, x, given, weights_from(weights, stack.parts))
    again = partial(composed, settings, dropout)
    y, *last = run_node(stack, again, len(given), x, *given, *weights)
    return y, tuple(last)


def _check_wavefront(settings: Settings, x: Tensor, found: PlainCall | None) -> None:
    """Refuse a call whose layers cannot run at the same time, whatever its sizes.

    Raises:
        PlanError: says why.
    """
    what = f"{settings.layers} layers of {settings.cell.name}"
    if found is None:
        raise wavefront_error(what, "a call by torch operations, which run layer by layer")
    if len(found.stack.calls) > 1:
        raise wavefront_error(what, "both directions of time")
    if found.stack.at_once is None:
        raise wavefront_error(what, f"tensors on {x.device.type}")


class PlainCall(NamedTuple):
    """A call on tensors that kernels read by their address.

    Attributes:
        stack: the call, besides its tensors.
        x: the input, in the dtype of the call.
        states: the caller's, likewise.
        weights: likewise; the `LayerWeights.flat` of each direction of each layer.
        needs_grad: whether a backward may follow.
    """

    stack: Stack
    x: Tensor
    states: tuple[Tensor, ...]
    weights: Sequence[Tensor | None]
    needs_grad: bool


def plain_call(
    settings: Settings,
    dropout: float,
    x: Tensor,
    given: tuple[Tensor, ...],
    weights: Sequence[Tensor | None],
) -> PlainCall | None:
    """What runs all layers by kernels; None where torch operations have to, as in `composed`.

    Args:
        settings: of the module.
        dropout: the probability of dropping a feature between layers.
        x: (T, B, input), or (B, input) of a single step.
        given: the caller's states, or none.
        weights: the `LayerWeights.flat` of each direction of each layer, one after the other.
    """
    if torch.compiler.is_compiling():
        return None
    device = x.device
    tensors = [x, *given, *[weight for weight in weights if weight is not None]]
    name = resolve_backend(settings.backend, device.type, device.index)
    if name == "reference":
        return None
    target = TARGETS[name]
    computed, returned = target.dtypes_of(x.dtype)
    if (
        returned != computed
        or computed not in target.dtypes
        or not all_plain(tensors)
        or is_watched()
        or any_tangent(tensors)
    ):
        return None
    dtypes = {tensor.dtype for tensor in tensors}
    if torch.is_autocast_enabled(device.type):
        if computed != torch.get_autocast_dtype(device.type) or not dtypes <= _CAST:
            return None
    elif len(dtypes) > 1 or computed not in dtypes:
        return None  # and `composed` says what is wrong
    if dtypes != {computed}:
        x, given = x.to(computed), tuple([state.to(computed) for state in given])
        weights = [None if weight is None else weight.to(computed) for weight in weights]
    needs_grad = torch.is_grad_enabled() and any(map(_needs_grad, tensors))
    tf32 = target.rounds(computed, settings.choice.precision)
    stack = _stack_of(settings, name, needs_grad, dropout, tf32)
    if settings.both and isinstance(target, JointTarget):
        sizes = x.shape[-2], settings.heads, settings.dim
        if target.joins(stack.calls[0], x, *sizes):
            stack = _joined(stack)
    return PlainCall(stack, x, given, weights, needs_grad)


@lru_cache(maxsize=512)
def _joined(stack: Stack) -> Stack:
    """The same call, with one call for both directions of a layer."""
    return stack._replace(joint=True)


@lru_cache(maxsize=512)
def _stack_of(
    settings: Settings, target: str, needs_grad: bool, dropout: float, tf32: bool
) -> Stack:
    """What a call is, besides its tensors; one object for all equal calls."""
    cell = settings.cell
    # The output is the first state; the others are wanted only after the last step.
    wanted = (True, *(False,) * (len(cell.states) - 1))
    calls = [
        call_of(cell.text, target, needs_grad, wanted, choice, tf32) for choice in settings.choices
    ]
    values = tuple([state.init for state in cell.states])
    sizes = settings.layers, settings.heads, settings.dim
    return Stack(tuple(calls), *sizes, dropout, values, settings.order)


def composed(
    settings: Settings,
    dropout: float,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    masks: Sequence[Tensor] = (),
) -> tuple[Tensor, States]:
    """The same by operations that tracers, modes, subclasses and autograd can see.

    Args:
        settings: of the module.
        dropout: the probability of dropping a feature between layers.
        x: (T, B, input).
        states: before the first step, (layers * directions, B, hidden) each; empty for each
            state's `init`.
        weights: the `LayerWeights.flat` of each direction of each layer, one after the other.
        masks: of each dropout, where they are drawn already.
    """
    named = weights_from(weights, settings.layers * len(settings.choices))
    lasts: list[States] = []
    for layer in range(settings.layers):
        if layer and masks:
            x = x * masks[layer - 1] * (1 / (1 - dropout) if dropout < 1 else 0.0)
        elif layer and dropout:
            x = F.dropout(x, dropout)
        outputs = []
        for choice in settings.choices:
            index = len(lasts)
            own = [state[index] for state in states]
            y, last = _scan_direction(settings, choice, x, own, named[index])
            outputs.append(y)
            lasts.append(last)
        x = torch.cat(outputs, 2) if settings.both else outputs[0]
    return x, tuple(torch.stack(each) for each in zip(*lasts, strict=True))


def _scan_direction(
    settings: Settings, choice: Choice, x: Tensor, states: Sequence[Tensor], weights: LayerWeights
) -> tuple[Tensor, States]:
    """One direction of a layer: its output, and its last states, (B, hidden) each."""
    cell, heads, dim = settings.cell, settings.heads, settings.dim
    steps, batch, _ = x.shape
    shape = (batch, heads, dim)
    target = target_of(x.device, settings.backend)
    if states:
        first = [state.reshape(shape) for state in states]
    else:
        first = target.initial_states(x, [state.init for state in cell.states], shape)
    W, R, b, R_diag, params = weights
    # A cell that takes no input still runs for as many steps.
    wx = x.new_empty(batch, steps, heads, dim, 0) if W is None else target.project(x, W)
    # The output is the first state; the others are wanted only after the last step.
    wanted = (True, *(False,) * (len(first) - 1))
    inputs = ScanInputs(wx, R, b, first, R_diag, params)
    over_time, last = run_scan(cell, inputs, wanted, settings.backend, choice)
    y = over_time[0].transpose(0, 1).reshape(steps, batch, heads * dim)
    return y, tuple(state.reshape(batch, heads * dim) for state in last)
