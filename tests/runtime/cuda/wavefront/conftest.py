"""A GPU whose driver only takes notes of the order of launches, waits and writes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.wavefront.groups import Room
from rnnc.runtime.cuda import launch
from rnnc.runtime.cuda.wavefront import lanes, products, run, schedule


class Note(NamedTuple):
    """What a stream was given.

    Attributes:
        stream: its name: "layer 0", "product 1", "caller" or "host".
        what: "kernel", "product", "reserve", "wait", "write", "hold", "go", "record", "wait_event".
        of: the place of a counter, an event's number, or None.
        value: that is waited for or written.
    """

    stream: str
    what: str
    of: Any = None
    value: int = 0


class Stream:
    """A stream that takes notes of its events."""

    def __init__(self, notes: list[Note], name: str) -> None:
        self.notes, self.cuda_stream = notes, name

    def wait_event(self, event: Event) -> None:
        self.notes.append(Note(self.cuda_stream, "wait_event", event))


class Event:
    """An event of such streams."""

    def record(self, stream: Stream) -> None:
        stream.notes.append(Note(stream.cuda_stream, "record", self))


@pytest.fixture
def driver(simulated_gpu, monkeypatch):
    """The notes, with a device on which three blocks share a multiprocessor."""
    notes: list[Note] = []
    caller = Stream(notes, "caller")
    current = [caller]
    made = {True: 0, False: 0}
    counters: list[Any] = []

    def place(address: int) -> Any:
        """The name of a counter, by its address: the call's number, its kind and its indices."""
        for number, each in enumerate(counters):
            first, layers, chunks = each.tensor.data_ptr(), each.layers, each._chunks
            index = (address - first) // 4
            if not 0 <= index < each.tensor.numel():
                continue
            if index <= layers:
                return (number, "started", index - 1) if index else (number, "reserved")
            kind, index = divmod(index - 1 - layers, layers * chunks)
            return number, ("done", "ready")[kind], *divmod(index, chunks)
        raise AssertionError("no counter")

    class Counted(run.Counters):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            counters.append(self)

    class Lanes(lanes.Lanes):
        def _new(self, urgent: bool) -> Any:
            made[urgent] += 1
            return Stream(notes, f"{'product' if urgent else 'layer'} {made[urgent] - 1}")

    class Blas:
        lock = nullcontext()

        def at(self, stream: Any, workspace: int, size: int) -> None:
            self.stream = stream

        def run(self, *_: Any) -> None:
            notes.append(Note(self.stream, "product"))

    def kernel(self: Any, grid: Any, arguments: Any, stream: Any = "caller") -> None:
        given = getattr(arguments, "ready", None), getattr(arguments, "done", None)
        notes.append(Note(stream, "kernel", tuple(g and place(g) for g in given)))

    monkeypatch.setattr(lanes, "_event", Event)
    monkeypatch.setattr(lanes, "beside_captures", nullcontext)
    own = Lanes(torch.device("cpu"))
    monkeypatch.setattr(run, "lanes_of", lambda _: own)
    monkeypatch.setattr(run, "Counters", Counted)
    monkeypatch.setattr(
        run, "wait_until", lambda s, a, n: notes.append(Note(s, "wait", place(a), n))
    )
    monkeypatch.setattr(run, "write", lambda s, a, n: notes.append(Note(s, "write", place(a), n)))
    monkeypatch.setattr(run, "load_reserve", lambda *_: None)
    monkeypatch.setattr(
        run, "launch_clusters", lambda k, g, c, a, s: notes.append(Note(s, "reserve", g, c))
    )
    monkeypatch.setattr(lanes, "new_blas", Blas)
    monkeypatch.setattr(products, "blas_of", lambda _: Blas())
    monkeypatch.setattr(launch.Kernel, "__call__", kernel)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _=None: current[0])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda s: current.__setitem__(0, s))
    monkeypatch.setattr(schedule, "device_limits", lambda _: limits_of("H200"))
    monkeypatch.setattr(schedule, "shared_with_processes", lambda _: False)
    monkeypatch.setattr(
        schedule, "_room", lambda call, plan, _: Room(132, 396 // plan.launch_shape.cluster, 3)
    )
    schedule._found.cache_clear()
    yield notes
    schedule._found.cache_clear()
