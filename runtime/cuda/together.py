"""Operations that are issued to a GPU together: as a graph, where addresses come again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..program.ops import Allocate, AllocateTogether, Free, Name, Op, Overwrite, Running
from .driver.graphs import Graph, graph_of
from .driver.room import count_launches
from .launch import Fill, Launch
from .memory import lasting_workspace
from .products.multiply import Multiply

# Graphs of one operation: a loop of calls has two sets of addresses, or a few.
_MOST_GRAPHS = 4
# To make a graph takes as long as some launches save. Where addresses keep changing, no more are
# made; where they change now and then, launches pay for new ones.
_COST, _MOST_SAVED = 4, 32  # launches
_FEWEST = 3  # launches that a graph replaces
_MOST_MORE = 2 * 2**20  # bytes: what torch's allocator takes at once, at least


class Together(Op):
    """Operations on one stream, issued together.

    Each launch takes the host as long as a short kernel runs, or longer. A graph of some takes it
    5 us. It holds addresses, so one is made where those of an earlier call come again. Its
    operations run one after the other, as in the stream. `slots` are the tensors that they use.
    The memory that products of a stream share may move, too: its address is one of them.
    """

    __slots__ = ("_device", "_graphs", "_missed", "_saved", "_shares", "_slots", "lane", "ops")

    def __init__(self, lane: int | None, ops: Sequence[Op], slots: Sequence[int]) -> None:
        self.lane = lane
        self.ops, self._slots = tuple(ops), tuple(slots)
        shares = [op.shares_on for op in ops if isinstance(op, Multiply)]
        self._shares = next((device for device in shares if device is not None), None)
        own = [op.kernel.device for op in ops if isinstance(op, Launch) and lane is None]
        self._device = own[0] if own else None  # whose streams' queues must have room
        self._graphs: dict[tuple[int, ...], Graph] = {}
        self._missed: list[tuple[int, ...]] = []  # the last addresses without a graph
        self._saved: float = _MOST_SAVED  # launches that may be spent on new graphs

    def text(self, name: Name) -> str:
        """Return them in words, one behind the other."""
        return "; then ".join(op.text(name) for op in self.ops)

    def __call__(self, running: Running) -> None:
        """Issue them."""
        places = [running.addresses[slot] for slot in self._slots]
        if self._shares is not None:
            workspace = lasting_workspace(self._shares, running.owner)  # kept until the launch
            places.append(workspace.data_ptr())
        addresses = tuple(places)
        graph = self._graphs.get(addresses)
        if graph is None and addresses in self._missed and self._saved >= _COST:
            graph = self._make(addresses, running)
        if graph is not None:
            graph.launch_again(running.stream if self.lane is None else self.lane)
            if self._device is not None:
                count_launches(self._device, running.stream, len(self.ops))
            self._saved = min(self._saved + 1, _MOST_SAVED)
            return
        self._missed = [*self._missed[1 - _MOST_GRAPHS :], addresses]
        self._issue(running)

    def _make(self, addresses: tuple[int, ...], running: Running) -> Graph | None:
        """Make a graph for some addresses; None where the driver refuses, as without memory."""
        if len(self._graphs) >= _MOST_GRAPHS:
            self._graphs.pop(next(iter(self._graphs)), None)  # another thread may have done it
        given = running.tensors, running.addresses, running.stream
        try:
            graph = graph_of(lambda stream: self._issue(Running(stream, *given)), self.lane)
        except RuntimeError:
            self._saved = -math.inf
            return None
        self._graphs[addresses] = graph
        self._saved -= _COST
        self._missed = [each for each in self._missed if each != addresses]
        return graph

    def _issue(self, running: Running) -> None:
        for op in self.ops:
            op(running)


def issued_together(ops: Sequence[Op]) -> Sequence[Op]:
    """Return the operations of a call with its launches as one, behind its allocations.

    They stay as they are where there is other work than launches on the current stream, or little,
    or where they would hold much more memory at once. The steps of an alternating plan are other
    work: they are graphs with memory of their own, which belongs to the stream that they are
    launched on.
    """
    memory = [op for op in ops if isinstance(op, Allocate | AllocateTogether)]
    told, freed = ([op for op in ops if isinstance(op, kind)] for kind in (Overwrite, Free))
    work = [op for op in ops if isinstance(op, Launch | Fill | Multiply) and op.lane is None]
    ordered = len(memory) + len(told) + len(freed) + len(work) == len(ops)
    if not ordered or len(work) < _FEWEST or _more_memory(ops) > _MOST_MORE:
        return ops
    slots = sorted({slot for op in work for _, slot, _ in op.places})
    return [*memory, *told, Together(None, work, slots), *freed]


def _more_memory(ops: Sequence[Op]) -> int:
    """Return the bytes by which memory grows if all of it is there from the first op to the last.

    It is compared with the largest that operations in their order have at once.
    """
    there: dict[int, int] = {}
    most = now = 0
    for op in ops:
        if isinstance(op, Allocate | AllocateTogether):
            there[op.slot] = op.nbytes
            now += op.nbytes
        elif isinstance(op, Free):
            now -= sum(there.get(slot, 0) for slot in op.slots)
        most = max(most, now)
    return sum(there.values()) - most
