"""A GPU whose driver only takes notes of the order of launches, waits and writes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.wavefront.groups import Chip
from rnnc.codegen.cuda.wavefront.items import Counter
from rnnc.runtime.cuda import together
from rnnc.runtime.cuda.arguments import with_handover
from rnnc.runtime.cuda.wavefront import lanes, products, run, schedule

CALLER, FIRST = 0, {"layer": 1000, "product": 2000}
WORKSPACE = 64  # bytes, of each product
WORDS, WRITE = 6, 2  # of an operation on device memory; cuda.h


class Note(NamedTuple):
    """What a stream was given.

    Attributes:
        stream: its name: "layer 0", "product 1" or "caller".
        what: "kernel", "product", "wait", "write", "record" or "wait_event".
        of: a wavefront's number and counter, the addresses of a product, an event's number or None.
        value: that is waited for or written.
    """

    stream: str
    what: str
    of: Any = None
    value: int = 0


class Stream(NamedTuple):
    """A stream of the caller, as torch has it."""

    name: str
    cuda_stream: int


class Counted(run.Counters):
    """Counters whose sizes are known by their bytes."""

    shapes: dict[int, tuple[int, int]] = {}  # noqa: RUF012
    struct = 0  # bytes of the arguments that were made last

    def __init__(self, layers: int, chunks: int, device: torch.device) -> None:
        self.shapes[4 * (layers + 2 * layers * chunks)] = layers, chunks
        super().__init__(layers, chunks, device)


def _handed(*arguments: Any) -> ctypes.Structure:
    found = with_handover(*arguments)
    Counted.struct = ctypes.sizeof(found)
    return found


class Driver:
    """Takes notes of what it is asked for; it fills memory."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.counters: list[tuple[int, int]] = []  # address and bytes, of each wavefront
        self._structs: dict[int, int] = {}  # bytes of the arguments of a layer's kernel
        self._events = 0
        self.graphs: list[Graphed] = []

    def note(self, stream: int, *what: Any) -> None:
        names = {name: stream - first for name, first in FIRST.items() if stream >= first}
        found = "caller" if stream == CALLER else " ".join(map(str, list(names.items())[-1]))
        self.notes.append(Note(found, *what))

    def place(self, address: int) -> Any:
        """The name of a counter, behind the wavefront's number."""
        for number, (first, size) in reversed(list(enumerate(self.counters))):
            layers, chunks = Counted.shapes[size]
            index = (address - first) // 4
            if not 0 <= index < size // 4:
                continue
            if index < layers:
                return number, Counter("started", index)
            kind, index = divmod(index - layers, layers * chunks)
            return number, Counter(("done", "ready")[kind], *divmod(index, chunks))
        raise AssertionError("no counter")

    def fill(self, address: int, byte: int, size: int, stream: int) -> None:
        if not byte and size in Counted.shapes:
            self.counters.append((address, size))
        ctypes.memset(address, byte, size)

    def launch(self, function: int, *given: Any) -> None:
        stream, values = given[7:9]
        found = None, None
        if stream >= FIRST["layer"]:
            end = self._structs.setdefault(function, Counted.struct) // 8
            begin = ctypes.c_void_p.from_address(values).value
            words = (ctypes.c_int64 * end).from_address(begin)
            found = tuple((word and self.place(word)) or None for word in words[end - 5 : end - 3])
        self.note(stream, "kernel", found)

    def hand_over(self, stream: int, count: int, address: int, _: int) -> int:
        words = (ctypes.c_uint64 * (WORDS * count)).from_address(address)
        for first in range(0, WORDS * count, WORDS):
            kind, number, value = words[first : first + 3]
            self.note(stream, "write" if kind == WRITE else "wait", self.place(number), value)
        return 0

    def new_event(self, _: int) -> int:
        self._events += 1
        return self._events

    def graph_of(self, issue: Callable[[int], None], stream: int) -> Graphed:
        before = len(self.notes)
        issue(stream)
        found = self.notes[before:]
        del self.notes[before:]
        self.graphs.append(Graphed(self.notes, found, stream))
        return self.graphs[-1]


class Graphed:
    """What was issued to a stream that captured it."""

    def __init__(self, notes: list[Note], own: list[Note], stream: int) -> None:
        self._notes, self.own, self._stream, self.launches = notes, own, stream, 0

    def launch_again(self, stream: int) -> None:
        assert stream == self._stream
        self.launches += 1
        self._notes.extend(self.own)


@pytest.fixture
def driver(simulated_gpu, monkeypatch):
    """The notes, with a device on which three blocks share a multiprocessor."""
    driver, current = Driver(), [Stream("caller", CALLER)]
    made = dict(FIRST)

    def new_stream(kind: str) -> int:
        made[kind] += 1
        return made[kind] - 1

    class Lanes(lanes.Lanes):
        def _new(self, handle: int) -> Any:
            return lanes.Lane(handle, None, driver.new_event(0))

    class Product:
        needs, cluster = WORKSPACE, 1

        def __call__(self, *given: int) -> None:
            *addresses, stream, workspace, size = given
            assert size == WORKSPACE
            driver.note(stream, "product", (*addresses, workspace))

    api = sys.modules["cupy_backends.cuda.api"]
    for name in ("launchKernel", "launchCooperativeKernel"):
        monkeypatch.setattr(api.driver, name, driver.launch)
    api.driver.check_status, api.driver.streamBatchMemOp = int, driver.hand_over
    runtime = {
        "memsetAsync": driver.fill,
        "eventDisableTiming": 2,
        "eventCreateWithFlags": driver.new_event,
        "eventRecord": lambda event, stream: driver.note(stream, "record", event),
        "streamWaitEvent": lambda stream, event: driver.note(stream, "wait_event", event),
    }
    for name, value in runtime.items():
        setattr(api.runtime, name, value)
    monkeypatch.setattr(lanes, "beside_captures", nullcontext)
    monkeypatch.setattr(lanes, "new_stream", lambda: new_stream("product"))

    class Partition:
        size = 88

        def new_stream(self) -> int:
            return new_stream("layer")

        def resident_blocks(self, *_: int) -> int:
            return 3 * self.size

    partition = Partition()
    monkeypatch.setattr(schedule, "partition_of", lambda *_: partition)
    own = Lanes(torch.device("cpu"))
    monkeypatch.setattr(run, "lanes_of", lambda _: own)
    monkeypatch.setattr(run, "Counters", Counted)
    monkeypatch.setattr(run, "with_handover", _handed)
    monkeypatch.setattr(together, "graph_of", driver.graph_of)
    monkeypatch.setattr(products, "multiplies", lambda *_: Product())
    monkeypatch.setattr(schedule, "multiplies", lambda *_: Product())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _=None: current[0])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda s: current.__setitem__(0, s))
    monkeypatch.setattr(schedule, "device_limits", lambda _: limits_of("H200"))
    monkeypatch.setattr(schedule, "shared_with_processes", lambda _: False)
    monkeypatch.setattr(schedule, "_chip", lambda *_: Chip(132, 3))
    kernel = SimpleNamespace(function=0, threads=0, shared=0)
    monkeypatch.setattr(schedule, "load_kernel", lambda *_: kernel)
    schedule._found.cache_clear()
    yield driver.notes
    schedule._found.cache_clear()
