"""Replays of one kind of call: found, recorded, or refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call.plain import guard_of
from .program import Program
from .recorder import Recorder

_MOST = 16

# Gives the handle of the current stream of a device; None where nothing can be replayed on it.
StreamOf = Callable[[torch.device], int | None]
# Tensors, and None for each that there is not.
Results = list[Any]


class _Known(NamedTuple):
    """A recorded call: a comparison of tensors with its own, and its program if it has one."""

    alike: Callable[..., bool]
    program: Program | None


_generation = 0


def forget_replays() -> None:
    """Release all replays; the next call of each kind is recorded again."""
    global _generation
    _generation += 1


def generation() -> int:
    """Return a number that changes whenever replays are released."""
    return _generation


def replayed(
    replays: Replays | None,
    key: Hashable,
    tensors: Iterable[Tensor | None],
    compute: Callable[[], Results],
    *,
    alike: bool = False,
) -> Results:
    """Return the results of a call by `Replays.run`, or computed if `replays` is None."""
    if replays is None:
        return compute()
    return replays.run(key, [t for t in tensors if t is not None], compute, alike=alike)


class Replays:
    """Replays of calls, by key. Any thread may use it."""

    def __init__(self, stream_of: StreamOf) -> None:
        self._stream_of = stream_of
        self._known: dict[Hashable, _Known] = {}
        self._generation = _generation

    def run(
        self,
        key: Hashable,
        tensors: Sequence[Tensor],
        compute: Callable[[], Results],
        *,
        alike: bool = False,
    ) -> Results:
        """Return the results of a call: of its program if it has one, else of the call itself.

        A call with the same key launches the same. No tensor occurs twice in `tensors`, all that
        the call reads. `alike` says that they are known to be like those of all calls of this key.
        """
        stream = self._stream_of(tensors[0].device)
        if stream is None:
            return compute()
        if self._generation != _generation:
            self._known, self._generation = {}, _generation
        key = key, stream, len(tensors)
        known = self._known.get(key)
        if known is None:
            return self._record(key, tensors, compute)
        if known.program is not None and (alike or known.alike(*tensors)):
            found = known.program(tensors, stream)
            if found is not None:
                return found
        return compute()

    def _record(
        self, key: Hashable, tensors: Sequence[Tensor], compute: Callable[[], Results]
    ) -> Results:
        """Run a call, and record it."""
        if len({id(tensor) for tensor in tensors}) < len(tensors):
            return compute()
        with Recorder(tensors) as recorder:
            results = compute()
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = _Known(guard_of(tensors), recorder.program(results))
        return results
