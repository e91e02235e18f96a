"""Turns of Python's threads while a call on a GPU runs on the host.

Torch lets the interpreter's lock go in each operation, in each allocation and with each tensor that
goes. A thread that computes then keeps the lock for `sys.getswitchinterval()`, 5 ms, some forty
times per call. While a call runs, threads take turns of 100 us. The interval is the process's own:
what the caller set is set again once no call runs. What a first call makes, it makes in such turns
too: an import beside two threads that compute takes a minute otherwise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_SHORT = 100e-6  # seconds; a change of threads takes some 10 us
_NOTHING = nullcontext()


class _ShortTurns:
    """A context in which threads take short turns; it may be entered by several at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = self._short = sys.getswitchinterval()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._usual = sys.getswitchinterval()
                _set(min(self._usual, _SHORT))
                self._short = sys.getswitchinterval()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _change(self._short, self._usual)

    def pause(self) -> None:
        """Let threads take turns as usual."""
        with self._lock:
            if self._inside:
                _change(self._short, self._usual)

    def resume(self) -> None:
        """Let them take short turns again."""
        with self._lock:
            if self._inside:
                _change(self._usual, self._short)


def _change(found: float, wanted: float) -> None:
    """Set the interval, unless someone else has set another one meanwhile."""
    if sys.getswitchinterval() == found:
        _set(wanted)


def _set(seconds: float) -> None:
    # Python cuts off what is less than a microsecond.
    sys.setswitchinterval(seconds + 0.5e-6)


# A context in which threads take short turns.
SHORT_TURNS = _ShortTurns()


@contextmanager
def usual_turns() -> Iterator[None]:
    """Let threads take turns as usual, in a context in which a call waits for the device."""
    SHORT_TURNS.pause()
    try:
        yield
    finally:
        SHORT_TURNS.resume()


def short_turns(device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which threads take short turns, where a call runs on a GPU.

    Args:
        device: of the call.
    """
    return SHORT_TURNS if device.type == "cuda" else _NOTHING


class _OfBackward:
    """Short turns for as long as a backward pass keeps this object, also if it fails."""

    def __init__(self) -> None:
        SHORT_TURNS.__enter__()

    def __call__(self) -> None:
        """Do nothing: the pass lets this object go afterwards."""

    def __del__(self) -> None:
        SHORT_TURNS.__exit__()


def short_turns_of_backward(device: torch.device) -> None:
    """Let threads take short turns until the backward pass ends that runs now.

    The pass lets the lock go for each gradient that Python gave, and for each saved tensor.

    Args:
        device: of the node that runs.
    """
    if device.type == "cuda":
        import torch

        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(_OfBackward())
