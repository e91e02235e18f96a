"""Kernels of a call over time, compiled and loaded without running them."""

from __future__ import annotations

from collections.abc import Iterator

from ..call.call import Call
from ..call.ragged import RaggedKind
from ..call.settings import Asked, call_of
from ..run.backend import resolve_backend
from ..targets.registry import TARGETS, compiler_error, target_name
from .layers import ModuleCall


def call_of_kernels(noted: ModuleCall, backward: bool) -> Call | None:
    """Return the call that kernels run for a noted one; None if none do."""
    settings, device = noted.settings, noted.device
    name = resolve_backend(settings.backend, device.type, device.index)
    if name == "reference":
        return None
    target = TARGETS[name]
    computed, _ = target.dtypes_of(noted.dtype)
    if computed not in target.dtypes:
        return None
    kind = RaggedKind(True, False, 0) if noted.masked else None
    tf32 = target.rounds(computed, settings.choice.precision)
    asked, settings = Asked(kind), settings._replace(dropout=0.0)
    call = call_of(settings, name, backward, tf32, asked)
    sizes = noted.batch, settings.heads, settings.dim
    may_join = settings.may_join and not noted.apart
    if may_join and target.joins(call.directions[0], noted.like(target), *sizes):
        return call_of(settings, name, backward, tf32, asked._replace(joint=True)).both
    return call


def why_none(noted: ModuleCall) -> str | None:
    """Return the reason why a call that leaves the choice to rnnc gets no kernels, if any."""
    settings, device = noted.settings, noted.device
    if settings.backend != "auto":
        return None
    name = target_name(device.type)
    if name is None:
        return f"rnnc has no kernels for the device {device.type!r}"
    error = compiler_error(name, device.index)
    return None if error is None else str(error)


def load_kernels(noted: ModuleCall, call: Call) -> None:
    """Compile the kernels of a call, or find them compiled, and load them."""
    target = TARGETS[call.target]
    like = noted.like(target)
    for each in call.directions:
        target.load_ahead(each, call, noted.steps, noted.batch, like)


def described(noted: ModuleCall) -> str:
    """Return a call in one line."""
    settings = noted.settings
    size = f"{settings.cell.name}, {settings.heads} x {settings.dim}, batch {noted.batch}"
    both = ", both directions" if settings.both else ""
    masked = ", with lengths or resets" if noted.masked else ""
    dtype = str(noted.dtype).removeprefix("torch.")
    return f"{size}, {dtype} on {noted.device.type}{both}{masked}"


def without_repeats(calls: list[ModuleCall]) -> Iterator[ModuleCall]:
    """Yield each kind of call once, in the order of their first occurrence."""
    seen = set()
    for noted in calls:
        own = noted.settings
        key = described(noted), own.cell, own.layers, own.choice, noted.steps
        if key not in seen:
            seen.add(key)
            yield noted
