"""Operations of programs on the streams of a wavefront."""

from __future__ import annotations

from ...program.ops import Name, Op, Running
from .lanes import Lane, Lanes


class _OfLanes(Op):
    """Order between the current stream and those of wavefronts."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes


class Fork(_OfLanes):
    """Fork of the streams from the current one; a run that fails joins them."""

    __slots__ = ()
    order = "fork"

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "other streams may start"

    def __call__(self, running: Running) -> None:
        """Fork them."""
        self._lanes.fork(running.stream)
        running.undo.append(self._lanes.join)


class Join(_OfLanes):
    """Join of the streams with the current one."""

    __slots__ = ()
    order = "join"

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "go on after all other streams"

    def __call__(self, running: Running) -> None:
        """Join them."""
        running.undo.pop()
        self._lanes.join()


class _OfLane(_OfLanes):
    __slots__ = ("_lane", "lane")

    def __init__(self, lanes: Lanes, lane: Lane) -> None:
        super().__init__(lanes)
        self._lane, self.lane = lane, lane.handle


class Enter(_OfLane):
    """Start of a stream after the fork."""

    __slots__ = ()

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "start"

    def __call__(self, running: Running) -> None:
        """Let it start."""
        self._lanes.enter(self._lane)


class Leave(_OfLane):
    """Return of a stream. What it used stays in place until all are joined."""

    __slots__ = ()

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "let the caller's stream go on"

    def __call__(self, running: Running) -> None:
        """Let the current stream go on after it."""
        self._lanes.leave(self._lane)
