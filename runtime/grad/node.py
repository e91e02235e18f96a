"""Calls that kernels run directly, or as one node of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import BackwardError
from ..call.call import Call, Tensors
from ..call.forms import TorchForm
from ..call.plain import all_plain, alone, is_watched, profiled
from ..call.tensors import SomeTensors, States
from ..process.turns import SHORT_TURNS, short_turns_of_backward
from ..program.seen import Entry
from .again import differentiate_again
from .check_saved import as_left, plain_gradients
from .compute import forward_of, gradients_of, inference_of
from .layers.forward import kept_from
from .transforms import check_gradients, check_has_operators

_NOTHING = nullcontext()


class Ready(NamedTuple):
    """Call that kernels run, with its tensors in the dtype of the call.

    `flat` has the tensors in one tuple, and `given` those of them that are not None.
    """

    entry: Entry
    tensors: Tensors
    flat: tuple[Tensor | None, ...]
    given: list[Tensor]


def ready_of(entry: Entry, tensors: Tensors) -> Ready:
    """Return a call of an entry on tensors that it may run on."""
    flat = tensors.flat()
    return Ready(entry, tensors, flat, [tensor for tensor in flat if tensor is not None])


def ready_if_alike(entry: Entry, tensors: Tensors) -> Ready | None:
    """Return the call of an entry on other tensors; None if they are not like its own."""
    ready = ready_of(entry, tensors)
    return ready if entry.alike(ready.given) else None


class Node(torch.autograd.Function):
    """Node of a call, with the gradients of its input, states and weights."""

    @staticmethod
    def forward(ctx: Any, entry: Entry, *flat: Tensor | None) -> tuple[Tensor, ...]:
        """Return the states of the last layer at all steps, and all states after the last one."""
        call = entry.call
        with profiled("rnnc::step" if call.single else "rnnc::scan"):
            run = partial(_forward, call, flat)
            given = [tensor for tensor in flat if tensor is not None]
            found = entry.replays.run("forward", given, run, alike=True)
        count = call.results
        # A backward reads wx only to compute the gates again.
        first = None if entry.forgets_x else flat[0]
        results, saved = found[:count], (first, *flat[1:], *found[count:])
        ctx.entry, ctx.spent = entry, False
        ctx.inputs, ctx.device = len(flat), results[0].device
        if entry.kinds is None:
            entry.kinds = [None if t is None else (t.shape, t.dtype) for t in saved]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        if not call.single:
            # A view of a tensor that was made here could not be changed in place.
            return tuple([result.detach() for result in results])
        # A caller may change new states in place, as those of torch's modules: see `_new_states`.
        # None where hooks say what a graph keeps, as those of `torch.utils.checkpoint` do.
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
        ctx.new = None if hooks else [(state.detach(), state._version) for state in results[1:]]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Return the gradient of each input that needs one."""
        if ctx.spent:
            raise _spent_error()
        entry: Entry = ctx.entry
        call, saved, needs = entry.call, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_has_operators(call.directions[0].target)
            if not isinstance(call.form, TorchForm):  # torch's operations take a batch
                check_gradients(gradients)
            flat, kept = saved[: ctx.inputs], kept_from(call, saved[ctx.inputs :])
            return None, *differentiate_again(call, flat, kept, needs, gradients)
        if ctx.device.type == "cuda":
            short_turns_of_backward()
        # Unless the caller retains the graph, no other backward reads what the kernels saved.
        retained = call.single or torch._C._autograd._get_current_graph_task_keep_graph()
        new = _new_states(ctx, saved) if call.single else ()
        run = partial(_backward, ctx, saved, new, gradients, needs, retained)
        key = needs, retained, tuple([d is None for d in gradients])
        name = "rnnc::step_backward" if call.single else "rnnc::scan_backward"
        tensors = [tensor for tensor in (*saved, *new, *gradients) if tensor is not None]
        before = None if retained else list(map(_version, tensors))
        with alone(name, ctx.device.type):
            try:
                found = entry.replays.run(key, tensors, run)
            except BaseException:
                ctx.spent = before is not None and before != list(map(_version, tensors))
                raise
        return None, *found


# Without the search of `torch.autograd.Function.apply` for transforms of torch.func: a call under
# one does not come here.
run_node: Callable[..., tuple[Tensor, ...]] = super(torch.autograd.Function, Node).apply
_version = attrgetter("_version")


def run_ready(ready: Ready) -> tuple[list[Tensor], States]:
    """Return the states of the last layer at all steps, and all states after the last one."""
    entry, tensors, flat, given = ready
    call, replays = entry.call, entry.replays
    with SHORT_TURNS if tensors.x.is_cuda else _NOTHING:
        if call.directions[0].for_backward:
            found = list(run_node(entry, *flat))
        else:
            run = partial(inference_of, call, tensors)
            with profiled("rnnc::step" if call.single else "rnnc::scan"):
                found = replays.run("inference", given, run, alike=True)
    count = call.sequences
    return found[:count], tuple(found[count:])


def _forward(call: Call, flat: SomeTensors) -> list[Any]:
    """Return the results of a call, and what its backward reads besides its inputs."""
    results, kept = forward_of(call, call.named(flat))
    return [*results, *kept.flat()]


def _backward(
    ctx: Any,
    saved: Sequence[Any],
    new: States,
    gradients: SomeTensors,
    needs: Sequence[bool],
    retained: bool,
) -> list[Tensor | None]:
    """Return the gradient of each input, by kernels."""
    call: Call = ctx.entry.call
    if not all_plain(gradients):
        check_gradients(gradients)
        gradients = plain_gradients(gradients)
    saved = _as_left(ctx, saved)
    tensors, kept = call.named(saved[: ctx.inputs]), kept_from(call, saved[ctx.inputs :])
    return gradients_of(call, tensors, kept, new, gradients, needs, retained)


def _new_states(ctx: Any, saved: Sequence[Any]) -> States:
    """Return the new states of a single step as the forward computed them.

    They are computed again where the caller has changed them since, under hooks on saved tensors,
    and in a second backward: a node keeps none after its first one.
    """
    kept, ctx.new = ctx.new, None
    if kept is not None and all(state._version == version for state, version in kept):
        return tuple([state for state, _ in kept])
    call: Call = ctx.entry.call
    results, _ = forward_of(call, call.named(_as_left(ctx, saved)[: ctx.inputs]))
    return tuple(results[1:])


def _as_left(ctx: Any, saved: Sequence[Any]) -> Sequence[Any]:
    """Return the saved tensors of a node by `as_left`, or as they are if such came before."""
    entry: Entry = ctx.entry
    if entry.saved_alike(saved):
        return saved
    assert entry.kinds is not None  # a forward came before
    found = as_left(saved, entry.kinds, ctx.device)
    if all(map(is_, found, saved)):
        entry.remember_saved(saved)
    return found


def _spent_error() -> BackwardError:
    """Return the error of a backward over saved values that a failed backward overwrote."""
    return BackwardError(
        "a second backward after one that failed",
        "saved gates that the failed backward overwrote with gradients",
        "a new forward after a backward that failed",
        "the forward again, or backward(retain_graph=True) if it may fail",
    )
