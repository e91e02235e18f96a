"""Operations of programs on the streams of a wavefront."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...program.ops import Name, Op, Running
from ..driver.graphs import Graph, graph_of
from .lanes import Lane, Lanes

# Graphs of one operation: a loop of calls has two sets of addresses, or a few.
_MOST_GRAPHS = 4
# To make a graph takes as long as some launches save. Where addresses keep changing, no more are
# made; where they change now and then, launches pay for new ones.
_COST, _MOST_SAVED = 4, 32  # launches


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


class Together(Op):
    """Operations on one stream, issued together.

    The next layer's kernel is issued behind all products of the layer before, which take the host
    15 us each: longer than the device needs for them, if it was idle. A graph of them takes 5 us.
    It holds addresses, so one is made where those of an earlier call come again. Its operations run
    one after the other, as in the stream. `slots` are the tensors that they use.
    """

    __slots__ = ("_graphs", "_missed", "_saved", "_slots", "_stream", "lane", "ops")

    def __init__(self, stream: int, ops: Sequence[Op], slots: Sequence[int]) -> None:
        self.lane = self._stream = stream
        self.ops, self._slots = tuple(ops), tuple(slots)
        self._graphs: dict[tuple[int, ...], Graph] = {}
        self._missed: list[tuple[int, ...]] = []  # the last addresses without a graph
        self._saved: float = _MOST_SAVED  # launches that may be spent on new graphs

    def text(self, name: Name) -> str:
        """Return them in words, one behind the other."""
        return "; then ".join(op.text(name) for op in self.ops)

    def __call__(self, running: Running) -> None:
        """Issue them."""
        addresses = tuple([running.addresses[slot] for slot in self._slots])
        graph = self._graphs.get(addresses)
        if graph is None and addresses in self._missed and self._saved >= _COST:
            graph = self._make(addresses, running)
        if graph is not None:
            graph.launch_again(self._stream)
            self._saved = min(self._saved + 1, _MOST_SAVED)
            return
        self._missed = [*self._missed[1 - _MOST_GRAPHS :], addresses]
        self._issue(running)

    def _make(self, addresses: tuple[int, ...], running: Running) -> Graph | None:
        """Make a graph for some addresses; None where the driver refuses, as without memory."""
        if len(self._graphs) == _MOST_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        try:
            graph = graph_of(lambda _: self._issue(running), self._stream)
        except RuntimeError:
            self._saved = -math.inf
            return None
        self._graphs[addresses] = graph
        self._saved -= _COST
        self._missed.remove(addresses)
        return graph

    def _issue(self, running: Running) -> None:
        for op in self.ops:
            op(running)
