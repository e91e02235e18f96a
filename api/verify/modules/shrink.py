"""Smaller cases of a module that may still fail in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from .case import Call, ModuleCase

_KEPT = ("cell", "calls", "seed", "device", "layers", "heads", "dim", "input_size", "fresh")
_PLAIN: dict[str, Any] = {
    field.name: field.default for field in fields(ModuleCase) if field.name not in _KEPT
}
_SIZES = ("layers", "heads", "dim", "input_size")
_OF_CALLS = (
    *("lengths", "resets", "reset_to", "states", "all_states", "view", "mode", "outputs"),
    *("values", "x_gradient", "training", "single"),
)
_PLAIN_CALL: dict[str, Any] = {
    field.name: field.default for field in fields(Call) if field.name in _OF_CALLS
}


def smaller(case: ModuleCase) -> Iterator[ModuleCase]:
    """Yield cases with fewer calls, fewer options or smaller sizes.

    Args:
        case: a case that fails.
    """
    calls = case.calls
    if len(calls) > 1:
        yield replace(case, calls=calls[: len(calls) // 2])
        yield replace(case, calls=calls[len(calls) // 2 :])
        for i in range(len(calls)):
            yield replace(case, calls=calls[:i] + calls[i + 1 :])
    for option, default in _PLAIN.items():
        if getattr(case, option) != default:
            yield replace(case, **{option: default})
    for size in _SIZES:
        now = getattr(case, size)
        for less in sorted({1, 2, now // 2, now - 1}):
            if 0 < less < now and (size != "dim" or less > case.proj_size):
                yield replace(case, **{size: less})
    # All calls at once: then those that were alike still are. Then one by one.
    for chosen in (range(len(calls)), *([i] for i in range(len(calls)) if len(calls) > 1)):
        for change in _changes([calls[i] for i in chosen]):
            changed = list(calls)
            for i, call in zip(chosen, change, strict=True):
                changed[i] = call
            if tuple(changed) != calls:
                yield replace(case, calls=tuple(changed))


def _changes(calls: list[Call]) -> Iterator[list[Call]]:
    for option, default in _PLAIN_CALL.items():
        yield [_plain(call, option, default) for call in calls]
    for less in (1, 2):
        yield [_with_batch(call, min(less, call.batch)) for call in calls]
        yield [_with_steps(call, min(less, call.steps)) for call in calls]
    yield [_with_steps(call, max(1, call.steps // 2)) for call in calls]
    yield [_with_steps(call, max(1, call.steps - 1)) for call in calls]


def _plain(call: Call, option: str, default: Any) -> Call:
    if option == "mode" and call.kind == "stepper":
        return call
    if option == "resets":
        return replace(call, resets=(), reset_to="init")
    if option == "states" and call.reset_to == "own":
        return call
    return replace(call, **{option: default})


def _with_batch(call: Call, batch: int) -> Call:
    return replace(call, batch=batch, lengths=call.lengths[:batch], resets=call.resets[:batch])


def _with_steps(call: Call, steps: int) -> Call:
    lengths = tuple(min(length, steps) for length in call.lengths)
    resets = tuple(tuple(t for t in row if t < steps) for row in call.resets)
    return replace(call, steps=steps, lengths=lengths, resets=resets)
