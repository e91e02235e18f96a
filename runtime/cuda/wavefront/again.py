"""Use of a wavefront's streams by a recorded call, done again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...program.entries import Entry, Running
from ...program.recorder import Recorder
from ..driver.graphs import Graph, graph_of
from .lanes import Lane, Lanes

# Graphs of one entry: a loop of calls has two sets of addresses, or a few.
_MOST_GRAPHS = 4
# To make a graph takes as long as some launches save. Where addresses keep changing, no more are
# made; where they change now and then, launches pay for new ones.
_COST, _MOST_SAVED = 4, 32  # launches


def fork_again(recorder: Recorder, lanes: Lanes) -> None:
    """Record that the streams were forked. A replay that fails joins them."""

    def fork(running: Running) -> None:
        lanes.fork(running.stream)
        running.undo.append(lanes.join)

    recorder.fork(fork)


def enter_again(recorder: Recorder, lanes: Lanes, lane: Lane) -> None:
    """Record that a stream entered."""
    recorder.add(lambda _: lanes.enter(lane), [], beside=True)


def leave_again(recorder: Recorder, lanes: Lanes, lane: Lane) -> None:
    """Record that a stream left. What it used stays in place until all are joined."""
    recorder.add(lambda _: lanes.leave(lane), [], beside=True)


def join_again(recorder: Recorder, lanes: Lanes) -> None:
    """Record that the streams were joined."""

    def join(running: Running) -> None:
        running.undo.pop()
        lanes.join()

    recorder.join(join)


class IssueAgain:
    """Operations that a recorded call issued to a stream, one per entry, issued again.

    The next layer's kernel is issued behind all products of the layer before, which take the host
    15 us each: longer than the device needs for them, if it was idle. A graph of them takes 5 us.
    It holds addresses, so one is made where those of an earlier call come again. Its operations run
    one after the other, as in the stream. `slots` are the tensors that they use.
    """

    __slots__ = ("_entries", "_graphs", "_lane", "_missed", "_saved", "_slots")

    def __init__(self, lane: Lane, entries: Sequence[Entry], slots: Sequence[int]) -> None:
        self._lane, self._entries, self._slots = lane.handle, tuple(entries), tuple(slots)
        self._graphs: dict[tuple[int, ...], Graph] = {}
        self._missed: list[tuple[int, ...]] = []  # the last addresses without a graph
        self._saved: float = _MOST_SAVED  # launches that may be spent on new graphs

    def __call__(self, running: Running) -> None:
        """Issue them."""
        addresses = tuple([running.addresses[slot] for slot in self._slots])
        graph = self._graphs.get(addresses)
        if graph is None and addresses in self._missed and self._saved >= _COST:
            graph = self._make(addresses, running)
        if graph is not None:
            graph.launch_again(self._lane)
            self._saved = min(self._saved + 1, _MOST_SAVED)
            return
        self._missed = [*self._missed[1 - _MOST_GRAPHS :], addresses]
        self._issue(running)

    def _make(self, addresses: tuple[int, ...], running: Running) -> Graph | None:
        """Make a graph for some addresses; another one goes if there are many.

        It is None where the driver refuses, as without memory. Nothing was issued then, and a
        device in an error says so again.
        """
        if len(self._graphs) == _MOST_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        try:
            graph = graph_of(lambda _: self._issue(running), self._lane)
        except RuntimeError:
            self._saved = -math.inf
            return None
        self._graphs[addresses] = graph
        self._saved -= _COST
        self._missed.remove(addresses)
        return graph

    def _issue(self, running: Running) -> None:
        for entry in self._entries:
            entry(running)
