"""Captures on a stream of their own: no state of torch's is touched."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .library import keeping

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@contextmanager
def beside_captures() -> Iterator[None]:
    """Allocate, free, load or capture although some stream captures.

    A capture in torch's default mode forbids such calls to every thread, and fails when one of them
    comes. They are harmless to it where they touch none of its memory and kernels.
    """
    mode = ctypes.c_int(_RELAXED)
    exchange = keeping("cuThreadExchangeStreamCaptureMode")
    done = exchange(ctypes.byref(mode)) == 0  # not in a thread that the driver does not know yet
    try:
        yield
    finally:
        if done:
            exchange(ctypes.byref(mode))


class Captured:
    """Launches as nodes of a graph, to be copied into others.

    Args:
        handle: the runtime's; destroyed with this object.
    """

    def __init__(self, handle: int) -> None:
        from cupy.cuda import runtime

        self.handle, self._destroy = handle, runtime.graphDestroy

    def __del__(self) -> None:
        with suppress(Exception):
            self._destroy(self.handle)


def captured(launch: Callable[[int], None], stream: int | None = None) -> Captured:
    """What launches would do; nothing runs.

    No thread and no mode of torch meets the capture, whose stream is of this library alone. Its own
    thread may free memory meanwhile, as garbage collection does.

    Args:
        launch: launches on the stream whose handle it is given; it neither allocates nor waits.
        stream: the handle of a stream that nobody else uses now; None for a new one, which is gone
            afterwards.

    Raises:
        BaseException: what `launch` raises; the capture is ended.
    """
    from cupy.cuda import Stream, runtime

    with beside_captures():
        kept = None  # a new stream, until the end
        if stream is None:
            kept = Stream(non_blocking=True)
            stream = int(kept.ptr)
        # An interrupt may come between any two calls: whatever is open then is ended.
        try:
            runtime.streamBeginCapture(stream, runtime.streamCaptureModeRelaxed)
            launch(stream)
            return Captured(runtime.streamEndCapture(stream))
        except BaseException:
            with suppress(Exception):
                Captured(runtime.streamEndCapture(stream))
            raise
