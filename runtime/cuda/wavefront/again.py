"""What a recorded call does with the streams of a wavefront, done again."""

from __future__ import annotations

from functools import partial

from ...replay.entries import Place, Running
from ...replay.recorder import Recorder
from .counters import Counters
from .lanes import Lanes


def fork_again(
    recorder: Recorder, lanes: Lanes, layers: int, products: int, counters: Counters
) -> None:
    """Record that the streams were forked.

    Args:
        recorder: records the call.
        lanes: the streams.
        layers: how many streams of layers.
        products: how many lanes of products.
        counters: what they wait for.
    """
    place = recorder.place(counters.tensor.data_ptr())
    recorder.fork(_Fork(lanes, (layers, products), place, counters.tensor.nbytes))


def launched_again(recorder: Recorder, lanes: Lanes) -> None:
    """Record that the streams have all their work.

    Args:
        recorder: records the call.
        lanes: the streams.
    """
    recorder.launched(lambda _: lanes.launched())


def join_again(recorder: Recorder, lanes: Lanes) -> None:
    """Record that the streams were joined.

    Args:
        recorder: records the call.
        lanes: the streams.
    """

    def join(running: Running) -> None:
        running.undo.pop()
        lanes.join()

    recorder.join(join)


class _Fork:
    """Forks the streams; if a later entry fails, they are given up.

    Args:
        lanes: the streams.
        counts: how many of layers and of products.
        counters: where the numbers lie that they wait for.
        size: bytes of them.
    """

    __slots__ = ("_counters", "_counts", "_lanes", "_size")

    def __init__(self, lanes: Lanes, counts: tuple[int, int], counters: Place, size: int) -> None:
        self._lanes, self._counts = lanes, counts
        self._counters, self._size = counters, size

    def __call__(self, running: Running) -> None:
        """Fork them."""
        slot, offset = self._counters
        counters = running.addresses[slot] + offset
        self._lanes.fork(*self._counts, running.stream)
        running.undo.append(partial(self._lanes.give_up, counters, self._size))
