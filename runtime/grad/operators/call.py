"""Calls of all layers as two operators of torch, forward and backward, for compilers and modes.

A call travels as text, so that a graph that holds the operator is complete in itself. The operators
are defined by `torch.library.Library`: `custom_op` looks at the memory of all arguments and results
in each call, which takes longer than the launches of a small network. That no result shares memory
with another tensor is held by tests instead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NoReturn

import torch
from torch import _C, Tensor
from torch._library.autograd import Info, make_autograd_impl

from ....errors import BackwardError, SecondOrderError
from ...call.call import Call
from ...call.marks import never_traced
from ...call.plain import alone, is_watched, treats_itself
from ...call.settings import CallText, read_call, write_call
from ...call.tensors import SomeTensors
from ...program.seen import Entry, Seen
from ...targets.registry import TARGETS, target_of
from ..check_saved import as_left
from ..compute import forgets_wx, forward_of, gradients_of, inference_of
from ..layers.forward import Kept
from ..transforms import OPERATOR_TARGETS, check_gradients
from .check import check_forward, check_gradients_of_results, check_results
from .results import beside_results, fake_call, fake_call_backward, runs_of

# Any: torch's library has no types for what is called here.
_LIBRARY: Any = torch.library.Library("rnnc", "FRAGMENT")  # type: ignore[no-untyped-call]
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define("call(Tensor[] tensors, str call) -> Tensor[]", tags=_TAGS)
_LIBRARY.define(
    "call_backward(Tensor?[] gradients, Tensor[] tensors, Tensor[] results, bool[] needs, str call)"
    " -> Tensor[]",
    tags=_TAGS,
)
# Where nothing but the kernels of a device is left for the dispatcher to find.
_KERNELS_ALONE = frozenset(
    _C.DispatchKeySet(getattr(_C.DispatchKey, device.upper())).raw_repr()
    for device in OPERATOR_TARGETS
)
_AFTER_AUTOGRAD = _C._after_autograd_keyset.raw_repr()
_calls: Seen = Seen(512)


def _call(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    """Return the results of a call and, where a backward may follow, what it reads besides."""
    written, x = read_call(text), tensors[0]
    key = text, _precision(written, x), len(tensors), x.shape, x.device
    entry = _find(key, tensors)
    if entry is None:
        tensors = [tensor.resolve_neg() for tensor in tensors]
        call = _call_of(written, x)
        check_forward(call, written, tensors)
        entry = _remember(key, tensors, call)
    run = partial(_forward, entry.call, written, tensors)
    with alone("rnnc::scan", x.device.type):
        return entry.replays.run("forward", tensors, run, alike=True)


def _forward(call: Call, written: CallText, tensors: Sequence[Tensor]) -> list[Tensor]:
    named, first = call.named(written.spread(tensors, None)), call.sequences
    results, kept = forward_of(call, named) if written.keep else (inference_of(call, named), None)
    found = [*results[:first], *[state.contiguous() for state in results[first:]]]
    return found if kept is None else [*found, *beside_results(call, kept.runs)]


def _call_backward(*arguments: Any) -> list[Tensor]:
    """Return the gradients of `plain_backward`, contiguous, each in memory of its own."""
    return plain_backward(*arguments, finish=_by_themselves)


def plain_backward(
    gradients: SomeTensors,
    tensors: Sequence[Tensor],
    results: Sequence[Tensor],
    needs: Sequence[bool],
    text: str,
    *,
    finish: Callable[[Sequence[Tensor]], list[Tensor]] = list,
) -> list[Tensor]:
    """Return the gradients of those flat tensors that `needs` says, by kernels, as `finish` does.

    `tensors` are as in `_call`, without a wx that the backward does not read, and `results` are
    those of `_call` without the last states.
    """
    # Autograd gives results back as those of a node or not.
    results = [result.detach() if result.requires_grad else result for result in results]
    written, first = read_call(text), results[0]
    given = [gradient for gradient in gradients if gradient is not None]
    read = [*tensors, *results, *given]
    counts = len(tensors), len(results), tuple([gradient is None for gradient in gradients])
    key = text, _precision(written, first), *counts, tuple(needs), first.shape, first.device
    entry = _find(key, read)
    if entry is None:
        call = _call_of(written, first)
        check_results(call, written, tensors, results)
        plain = check_gradients_of_results(call, results, gradients)
        same = all(new is old for new, old in zip(plain, gradients, strict=True))
        gradients = plain
        entry = _remember(key, read, call) if same else Entry(call)
    run = partial(_backward, entry.call, written, gradients, tensors, results, needs, finish)
    with alone("rnnc::scan_backward", first.device.type):
        return entry.replays.run(("backward", finish), read, run, alike=True)


def _backward(
    call: Call,
    written: CallText,
    gradients: SomeTensors,
    tensors: Sequence[Any],
    results: Sequence[Tensor],
    needs: Sequence[bool],
    finish: Callable[[Sequence[Tensor]], list[Tensor]],
) -> list[Tensor]:
    tensors = (None, *tensors) if forgets_wx(call) else tensors
    named, runs = call.named(written.spread(tensors, None)), runs_of(call, results)
    made = None
    if named.ragged is not None:
        steps, batch = runs[-1][0].shape[:2]
        sizes, device = (batch, steps), results[0].device
        made = TARGETS[call.target].made_masks(named.ragged, sizes, device, call.reverses)
    wanted = written.spread(needs, False)
    own = call, named, Kept((), runs, made), (), gradients, wanted
    found = gradients_of(*own, retained=True)
    return finish(
        [
            torch.zeros_like(tensor) if d is None else d  # of reset values that are stored
            for d, tensor, need in zip(found, written.spread(tensors, None), wanted, strict=True)
            if need
        ]
    )


def _precision(written: CallText, like: Tensor) -> object:
    """Return the precision of a call that names one, or whether torch's flags now say TF32."""
    own = written.settings.choice.precision
    return own or target_of(like.device).rounds(like.dtype, own)


def _call_of(written: CallText, like: Tensor) -> Call:
    """Return a call on the device of a tensor, at the precision that torch's flags now say."""
    tf32 = target_of(like.device).rounds(like.dtype, written.settings.choice.precision)
    return written.call(like.device.type, tf32)


def _find(key: Hashable, tensors: Sequence[Tensor]) -> Entry | None:
    """Return the entry of a call that came before with tensors like these."""
    found = _calls.find(key)
    return found if found is not None and found.alike(tensors) else None


def _remember(key: Hashable, tensors: Sequence[Tensor], call: Call) -> Entry:
    """Return an entry for a call that passed all checks: one with replays, if it comes again."""
    first = Entry(call)
    if not _calls.again(key):
        return first
    known = Entry(call, replays=TARGETS[call.target].replays(call))
    return _calls.remember(key, tensors, known) or first


def _by_themselves(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients, contiguous, none of which shares memory with another."""
    found, seen = [], set()
    for gradient in gradients:
        own = gradient.contiguous()
        memory = own.untyped_storage().data_ptr()
        shared = memory in seen or own.storage_offset()
        found.append(own.clone() if shared else own)
        seen.add(memory)
    return found


def set_up(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    """Save what the backward of `rnnc::call` needs: the first tensors of the call, then results."""
    tensors, text = inputs
    written = read_call(text)
    if not written.keep:
        raise BackwardError(
            "a backward through rnnc::call",
            "the call says that none follows, and its tensors need gradients",
            "a call of which a backward may follow",
            "rnnc.scan or rnnc.RNN, which know; or torch.no_grad() around the call",
        )
    call = _call_of(written, tensors[0])
    if not torch.compiler.is_compiling():  # torch's flags may change before the backward
        text = write_call(written.with_precision(call.tf32))
    read = tensors[forgets_wx(call) :]
    saved = [*read, *output[: call.sequences], *output[call.results :]]
    ctx.text, ctx.results, ctx.first, ctx.device = text, call.results, len(read), tensors[0].device
    # A tracer, or the type of a tensor that treats operators itself, answers for its own tensors.
    own = is_watched() or any(treats_itself(tensor) for tensor in saved)
    ctx.kinds = None if own else [(tensor.shape, tensor.dtype) for tensor in saved]
    ctx.mark_non_differentiable(*output[ctx.results :])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*saved)


def _differentiate(ctx: Any, gradients: SomeTensors) -> tuple[Any, ...]:
    """Return a gradient for each argument of `rnnc::call`."""
    if not torch.compiler.is_compiling():
        check_gradients(gradients)
    saved, needs = ctx.saved_tensors, ctx.needs_input_grad[0]
    if ctx.kinds is not None and not (torch.compiler.is_compiling() or is_watched()):
        saved = as_left(saved, ctx.kinds, ctx.device)
    given = list(gradients[: ctx.results]), list(saved[: ctx.first]), list(saved[ctx.first :])
    found = iter(call_backward_op(*given, needs, ctx.text))
    return [next(found) if need else None for need in needs], None


def refuse_second(*_: Any) -> NoReturn:
    """Raise the error of a second derivative."""
    raise SecondOrderError(
        "gradient of a gradient",
        "a backward through rnnc::call_backward",
        "a first derivative: the kernels compute no others",
        'backend="reference", which autograd can differentiate to any order',
    )


def _register(
    op: Any,
    kernel: Callable[..., list[Tensor]],
    backward: Callable[..., Any],
    save: Callable[..., None] | None = None,
) -> None:
    """Register the kernel of an operator, and its gradient as `torch.library.register_autograd`.

    A compiled graph computes gradients by operators of its own, so autograd has nothing to record
    there. Then the `kernel` is called without another round through the dispatcher, which converts
    all arguments twice. `save` saves what `backward` needs.
    """
    for device in OPERATOR_TARGETS:
        _LIBRARY.impl(op, never_traced(kernel), device.upper())
    recorded: Callable[..., Any] = make_autograd_impl(op, Info(backward, save))

    @never_traced
    def run(keys: Any, *arguments: Any) -> Any:
        if _C.is_grad_enabled() or keys.raw_repr() & _AFTER_AUTOGRAD not in _KERNELS_ALONE:
            return recorded(keys, *arguments)
        with _C._AutoDispatchBelowAutograd():
            return kernel(*arguments)

    _LIBRARY.impl(op, run, "Autograd", with_keyset=True)


call_op, call_backward_op = torch.ops.rnnc.call.default, torch.ops.rnnc.call_backward.default
_register(call_op, _call, _differentiate, set_up)
_register(call_backward_op, _call_backward, refuse_second)
torch.library.register_fake("rnnc::call", fake_call, lib=_LIBRARY)
torch.library.register_fake("rnnc::call_backward", fake_call_backward, lib=_LIBRARY)
