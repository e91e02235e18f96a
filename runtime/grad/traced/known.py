"""Calls of the operators of all layers that come again: a graph makes the same ones each time."""

from __future__ import annotations

from collections.abc import Hashable

from ...call.stack import Stack
from ...program.replays import Replays, generation
from ...targets.stack import target_for

_MOST = 512


class _Known:
    """Keys of all calls that came before, and replays of those that came again, by key.

    `generation` is that of the replays.
    """

    def __init__(self) -> None:
        self.replays: dict[Hashable, Replays | None] = {}
        self.keys: set[Hashable] = set()
        self.generation = generation()


_known = _Known()


def replays_for(stack: Stack, key: Hashable) -> Replays | None:
    """Return what records such calls and replays them; None where one is computed.

    Sequences may have another length each time, so only what comes again is recorded. `key` is what
    a call is besides the values of its tensors.
    """
    global _known
    known = _known
    if known.generation != generation() or len(known.keys) > _MOST:
        known = _known = _Known()  # replays of modules that are gone keep constants
    if key not in known.keys:
        known.keys.add(key)
        return None
    found = known.replays.get(key)
    return found or known.replays.setdefault(key, target_for(stack).replays())
