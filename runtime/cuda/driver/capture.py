"""Captures on a stream of their own, which touch no state of torch's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .driver import keeping

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@contextmanager
def beside_captures() -> Iterator[None]:
    """Allow allocations, frees, loads and captures while some stream captures.

    A capture in torch's default mode forbids such calls to every thread, and fails when one of them
    comes. They are harmless to it where they touch none of its memory and kernels.
    """
    mode = ctypes.c_int(_RELAXED)
    exchange = keeping.cuThreadExchangeStreamCaptureMode
    done = exchange(ctypes.byref(mode)) == 0  # not in a thread that the driver does not know yet
    try:
        yield
    finally:
        if done:
            exchange(ctypes.byref(mode))


class Captured:
    """Launches as nodes of a graph, to be copied into others; it owns the runtime's handle."""

    def __init__(self, handle: int) -> None:
        from cupy.cuda import runtime

        self.handle, self._destroy = handle, runtime.graphDestroy

    def __del__(self) -> None:
        with suppress(Exception):
            self._destroy(self.handle)


def captured(launch: Callable[[int], None], stream: int | None = None) -> Captured:
    """Capture what `launch` launches on the stream whose handle it is given; nothing runs.

    `launch` neither allocates nor waits. Nobody else uses the stream now; None is a temporary one.
    The stream of a capture is of this library alone: no thread and no mode of torch meets it. The
    capturing thread may free memory meanwhile, as garbage collection does. The capture ends if
    `launch` raises.
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
