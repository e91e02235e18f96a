"""Kernels of a call over time, compiled and loaded without running them."""

from __future__ import annotations

from collections.abc import Iterator

from ..call.ragged import RaggedKind
from ..call.settings import Asked, stack_of
from ..call.stack import Stack
from ..errors import CompileError
from ..grad.layers.joint import joint_stack
from ..run.route import resolve_backend
from ..targets.registry import TARGETS, target_name
from ..targets.stack import target_for
from .layers import LayerCall


def stack_of_call(call: LayerCall, backward: bool) -> Stack | None:
    """Return the stack that a call runs; None if no kernels do."""
    settings, device = call.settings, call.device
    name = resolve_backend(settings.backend, device.type, device.index)
    if name == "reference":
        return None
    target = TARGETS[name]
    computed, _ = target.dtypes_of(call.dtype)
    if computed not in target.dtypes:
        return None
    kind = RaggedKind(True, False, 0) if call.masked else None
    tf32 = target.rounds(computed, settings.choice.precision)
    asked, settings = Asked(kind), settings._replace(dropout=0.0)
    stack = stack_of(settings, name, backward, tf32, asked)
    sizes = call.batch, settings.heads, settings.dim
    may_join = settings.may_join and not call.apart
    if may_join and target.joins(stack.calls[0], call.like(target), *sizes):
        return joint_stack(stack_of(settings, name, backward, tf32, asked._replace(joint=True)))
    return stack


def why_none(call: LayerCall) -> str | None:
    """Return the reason why a call that leaves the choice to rnnc gets no kernels, if any."""
    settings, device = call.settings, call.device
    if settings.backend != "auto":
        return None
    name = target_name(device.type)
    if name is None:
        return f"rnnc has no kernels for the device {device.type!r}"
    try:
        TARGETS[name].find_compiler(device.index)
    except CompileError as error:
        return str(error)
    return None


def load_kernels(call: LayerCall, stack: Stack) -> None:
    """Compile the kernels of a call, or find them compiled, and load them."""
    target = target_for(stack)
    like = call.like(target)
    for each in stack.calls:
        target.load_ahead(each, stack, call.steps, call.batch, like)


def described(call: LayerCall) -> str:
    """Return a call in one line."""
    settings = call.settings
    size = f"{settings.cell.name}, {settings.heads} x {settings.dim}, batch {call.batch}"
    both = ", both directions" if settings.both else ""
    masked = ", with lengths or resets" if call.masked else ""
    dtype = str(call.dtype).removeprefix("torch.")
    return f"{size}, {dtype} on {call.device.type}{both}{masked}"


def without_repeats(calls: list[LayerCall]) -> Iterator[LayerCall]:
    """Yield each kind of call once, in the order of their first occurrence."""
    seen = set()
    for call in calls:
        key = described(call), call.settings.layers, call.settings.choice, call.steps
        if key not in seen:
            seen.add(key)
            yield call
