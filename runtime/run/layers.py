"""Layers of a module over time: as one node of autograd, or layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ..call.call import fill_of
from ..call.layers import wavefront_error
from ..call.plain import all_plain, any_tangent, is_watched
from ..call.ragged import Ragged
from ..call.settings import Settings, made_joint, stack_of
from ..call.step_call import StepCall
from ..call.tensors import States
from ..grad.layers import Composed, run_node
from ..grad.stack.forward import forward_layers, profiled
from ..grad.step import run_step_node
from ..grad.traced.call import operator_weights, run_operator
from ..grad.transforms import check_has_operators, needs_reference
from ..process.turns import short_turns
from ..program.replays import replayed
from ..targets.registry import TARGETS
from ..targets.stack import target_for, weights_for
from .layer_by_layer import composed
from .plain_call import KernelCall, PlainCall
from .scan import resolve_backend

# What autocast casts to the dtype of a call.
CAST = frozenset((torch.float32, torch.bfloat16, torch.float16))


def scan_layers(
    settings: Settings,
    training: bool,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
    remember: Callable[[PlainCall], None] | None = None,
    ragged: Ragged | None = None,
    unweighted: Sequence[Tensor] = (),
) -> tuple[Tensor, States]:
    """Run all layers of a module.

    Args:
        training: whether features are dropped between layers.
        x: (T, B, input).
        states: before the first step, (layers * directions, B, hidden) each; None for each state's
            `init`.
        weights: the parameters, in the form of `settings`.
        remember: is told what the call became, if kernels run it directly.
        unweighted: as in `ScanInputs`, the same for all layers.

    Returns:
        The output of the last layer, (T, B, directions * hidden), and each state after the last
        step.
    """
    dropout = settings.dropout if training else 0.0
    given = tuple(states or ())
    found = plain_call(settings, dropout, x, given, weights, ragged, unweighted)
    traced = found is None and (torch.compiler.is_compiling() or is_watched())
    traced = traced and ragged is None and len(settings.cell.inputs) == 0
    call = None
    if traced:
        call = kernel_call(settings, x, given, operator_weights(settings, weights), True)
    if settings.order == "wavefront" and settings.layers > 1 and len(x) > 1:
        check_wavefront(settings, x, found or call, ragged)
    if call is not None:
        return run_operator(settings, dropout, *call)
    if found is None:
        return composed(settings, dropout, x, given, weights, ragged=ragged, unweighted=unweighted)
    if remember is not None:
        remember(found)
    return run_plain_call(settings, dropout, found)


def run_plain_call(
    settings: Settings, dropout: float, call: PlainCall, again: Composed | None = None
) -> tuple[Tensor, States]:
    """Run all layers by kernels; the results are those of `scan_layers`.

    `again` computes the same by operations of torch; None for `composed`.
    """
    stack, x, given, weights, needs_grad, replays, ragged, unweighted = call
    rows = unweighted if ragged is None else (*ragged.tensors(), *unweighted)
    single = len(x) == 1 and not (settings.both or dropout or rows)
    single = single and target_for(stack).runs_one_step(settings.choice)
    if needs_grad:
        again = again or partial(composed, settings, dropout)
        run_all = run_step_node if single else run_node
        with short_turns(x.device):
            y, *last = run_all(stack, again, len(given), replays, x, *given, *rows, *weights)
        return y, tuple(last)
    run = partial(one_step if single else _inference, call)
    with profiled("rnnc::scan"), short_turns(x.device):
        tensors = x, *given, *rows, *weights
        y, *last = replayed(replays, "inference", tensors, run, alike=True)
    return y, tuple(last)


def one_step(call: PlainCall) -> list[Tensor]:
    """Return the output and the new states of a step, or of a sequence of one, without gradients.

    The target must have kernels for single steps.
    """
    weights = call.stack.flat_weights(call.weights)
    step = StepCall(call.stack, call.x, call.states, weights)
    stepped = target_for(call.stack).step(step)
    return [stepped.output, *stepped.last]


def _inference(call: PlainCall) -> list[Tensor]:
    """Return the output and the last states, where no gradient is wanted."""
    if call.ragged is None and not call.unweighted:
        tensors = call.x, call.states, call.weights
        found = target_for(call.stack).sequence(call.stack, *tensors)
        if found is not None:
            return [found[0], *found[1]]
    weights = weights_for(call.stack, call.weights)
    more = call.ragged, call.unweighted
    run = forward_layers(call.stack, call.x, call.states, weights, (), *more)
    return [run.y, *run.last]


def check_wavefront(
    settings: Settings,
    x: Tensor,
    call: PlainCall | KernelCall | None,
    ragged: Ragged | None = None,
) -> None:
    """Refuse a call whose layers cannot run at the same time, whatever its sizes.

    `call` is what it became; None for torch operations.

    Raises:
        PlanError: says why.
    """
    what = f"{settings.layers} layers of {settings.cell.name}"
    if ragged is not None:
        raise wavefront_error(what, "lengths or resets, with which layers run one by one")
    if settings.cell.inputs:
        raise wavefront_error(what, "a cell with an Input, with which layers run one by one")
    if call is None:
        raise wavefront_error(what, "a call by torch operations, which run layer by layer")
    if settings.both:
        raise wavefront_error(what, "both directions of time")
    target = TARGETS[call.target] if isinstance(call, KernelCall) else target_for(call.stack)
    if not target.at_once:
        raise wavefront_error(what, f"tensors on {x.device.type}")


def plain_call(
    settings: Settings,
    dropout: float,
    x: Tensor,
    given: tuple[Tensor, ...],
    weights: Sequence[Tensor | None],
    ragged: Ragged | None = None,
    unweighted: Sequence[Tensor] = (),
) -> PlainCall | None:
    """Return what runs all layers by kernels directly; None where torch has to see the call.

    x is (T, B, input), (B, input) of a single step, or (total, input) of packed rows. `given` has
    the caller's states, or none.
    """
    if torch.compiler.is_compiling() or is_watched():
        return None
    count, values = len(given), () if ragged is None else tuple(ragged.reset_to or ())
    found = kernel_call(settings, x, (*given, *values, *unweighted), weights, False)
    if found is None:
        return None
    target, x, given, weights, needs_grad = found
    if unweighted and not TARGETS[target].takes_inputs:
        return None
    end = count + len(values)
    given, values, unweighted = given[:count], given[count:end], given[end:]
    batch = x.shape[-2]
    if ragged is not None:
        own = [tensor for tensor in (ragged.lengths, ragged.reset) if tensor is not None]
        if not all_plain(own) or not TARGETS[target].takes_masks:
            return None
        ragged = ragged.on(x)._replace(reset_to=values or None)
        fill = ragged.fill
        if ragged.starts is not None and ragged.lengths is not None:
            batch = len(ragged.lengths)
            fill = fill_of(len(x), len(ragged.starts) - 1, batch)
        settings = settings._replace(choice=settings.choice._replace(fill=fill))
    tf32 = TARGETS[target].rounds(x.dtype, settings.choice.precision)
    kind = None if ragged is None else ragged.kind
    TARGETS[target].begin(x.dtype, x.device.index)
    stack = stack_of(settings, target, needs_grad, dropout, tf32, kind)
    if settings.may_join:
        sizes = batch, settings.heads, settings.dim
        joins = TARGETS[target].joins(stack.calls[0], x, *sizes)
        stack = made_joint(stack) if joins else stack
    return PlainCall(stack, x, given, weights, needs_grad, None, ragged, unweighted)


def kernel_call(
    settings: Settings,
    x: Tensor,
    given: tuple[Tensor, ...],
    weights: Sequence[Tensor | None],
    traced: bool,
) -> KernelCall | None:
    """Return a call in the dtype of its kernels; None where torch operations have to run.

    Arguments are as in `plain_call`. `traced` says that a compiler, a mode or a tracer sees the
    call, so that an operator runs it.
    """
    device = x.device
    tensors = [x, *given, *[weight for weight in weights if weight is not None]]
    name = resolve_backend(settings.backend, device.type, device.index)
    if name == "reference":
        return None
    target = TARGETS[name]
    computed, returned = target.dtypes_of(x.dtype)
    if returned != computed or computed not in target.dtypes:
        return None
    if traced:
        if needs_reference(settings.backend, tensors):
            return None
        check_has_operators(name)
    elif not all_plain(tensors) or any_tangent(tensors):
        return None
    dtypes = {tensor.dtype for tensor in tensors}
    if torch.is_autocast_enabled(device.type):
        if computed != torch.get_autocast_dtype(device.type) or not dtypes <= CAST:
            return None
    elif len(dtypes) > 1 or computed not in dtypes:
        return None  # and `composed` says what is wrong
    if dtypes != {computed}:
        x, given = x.to(computed), tuple([state.to(computed) for state in given])
        weights = [None if weight is None else weight.to(computed) for weight in weights]
    needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return KernelCall(name, x, given, weights, needs_grad)
