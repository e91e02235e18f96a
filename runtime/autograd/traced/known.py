"""Calls of the operators of all layers that come again: a graph makes the same ones each time."""

from __future__ import annotations

from collections.abc import Hashable

from ...replay.replays import Replays
from ...targets import replays_of
from ..stack import Stack

_MOST = 512
_KNOWN: dict[Hashable, Replays | None] = {}
_SEEN: set[Hashable] = set()


def replays_for(stack: Stack, key: Hashable) -> Replays | None:
    """What records such calls and replays them; None where one is computed.

    The first call of its kind checks its tensors, which is no part of what a replay does again.

    Args:
        stack: the call.
        key: what it is besides its tensors.
    """
    if key in _KNOWN:
        return _KNOWN[key]
    # Sequences may have another length each time: only what comes again is worth it.
    if key not in _SEEN:
        if len(_SEEN) >= _MOST:
            _SEEN.clear()
        _SEEN.add(key)
        return None
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    return _KNOWN.setdefault(key, replays_of(stack.target))
