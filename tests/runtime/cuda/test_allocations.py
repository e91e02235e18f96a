"""Memory from the driver: in the order of its stream, never in a caller's graph."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from rnnc.runtime.cuda import memory as device_memory
from rnnc.runtime.cuda.memory import _Memory, rounded


@pytest.fixture
def log(monkeypatch):
    """The runtime's calls."""
    cuda = pytest.importorskip("cupy.cuda")
    found = []
    monkeypatch.setattr(device_memory, "beside_captures", nullcontext)
    for name, result in {
        "mallocAsync": 512,
        "malloc": 1024,
        "freeAsync": None,
        "free": None,
        "streamIsCapturing": False,
    }.items():

        def call(*given, name=name, result=result):
            if name != "streamIsCapturing":
                found.append((name, *given))
            return result

        monkeypatch.setattr(cuda.runtime, name, call)
    return found


def test_it_is_freed_behind_what_its_stream_runs(log):
    memory = _Memory(100, 7)
    assert memory.__cuda_array_interface__["data"] == (512, False)
    del memory
    assert log == [("mallocAsync", 100, 7), ("freeAsync", 512, 7)]


def test_a_stream_that_captures_takes_no_part_in_it(log, monkeypatch):
    memory = _Memory(100, 7)
    monkeypatch.setattr(memory._runtime, "streamIsCapturing", lambda stream: True)
    del memory
    assert log[1:] == [("free", 512)]


def test_sizes_are_rounded_as_the_driver_does():
    assert [rounded(size) for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
