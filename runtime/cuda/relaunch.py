"""Launches and fills of a recorded call, done again with other addresses."""

from __future__ import annotations

import ctypes
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..program.entries import Place, Running
from ..program.recorder import Recorder
from .driver.driver import Configured, check_launch, configured
from .driver.library import check, keeping
from .driver.room import make_room

if TYPE_CHECKING:
    from .launch import Kernel

_WORD = 8  # bytes
COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
# A launch takes the host some 4 us with what is around it.
_LAUNCHES_PER_ROOM = 64


class Arguments:
    """Argument of a recorded launch: a struct, in which addresses of the call change.

    `places` are the recorder's places of the addresses.
    """

    __slots__ = ("_behind", "_numbers", "_words", "places")

    def __init__(self, recorder: Recorder, struct: ctypes.Structure) -> None:
        numbers = array("q", bytes(struct))
        words = [word for word in _addresses(type(struct)) if numbers[word]]
        self.places = [recorder.place(numbers[word]) for word in words]
        self._words = [(word, *place) for word, place in zip(words, self.places, strict=True)]
        # The driver reads the address of the only argument, which lies behind the argument.
        self._numbers, self._behind = array("q", [*numbers, 0]), len(numbers)

    def filled(self, running: Running) -> tuple[int, array[int]]:
        """Return the address that the driver reads, and the memory that it lies in."""
        addresses, numbers = running.addresses, self._numbers[:]
        for word, slot, offset in self._words:
            numbers[word] = addresses[slot] + offset
        begin, _ = numbers.buffer_info()
        numbers[self._behind] = begin
        return begin + self._behind * _WORD, numbers


def relaunch(
    recorder: Recorder,
    kernel: Kernel,
    grid: tuple[int, int, int],
    arguments: ctypes.Structure,
    lane: int | None,
) -> None:
    """Record a launch. The lane is the forked stream that it was on; None for the current one."""
    again = Arguments(recorder, arguments)
    recorder.launches += 1
    if not recorder.launches % _LAUNCHES_PER_ROOM:
        recorder.add(lambda running: make_room(kernel.device, running.stream), [])
    recorder.add(_Relaunch(kernel, grid, again, lane), again.places, lane is not None)


class _Relaunch:
    """Launch of a call on the current device; a lane of None is the current stream."""

    __slots__ = ("_arguments", "_config", "_function", "_given", "_kernel", "_lane", "_launch")

    def __init__(
        self, kernel: Kernel, grid: tuple[int, int, int], arguments: Arguments, lane: int | None
    ) -> None:
        self._kernel, self._function, self._lane = kernel, kernel.function, lane
        cooperative = None if kernel.resident is None else COOPERATIVE
        self._given = grid, kernel.threads, kernel.shared, cooperative
        self._launch, self._arguments = keeping("cuLaunchKernelEx"), arguments
        self._config = self._on(lane or 0)

    def __call__(self, running: Running) -> None:
        values, _kept = self._arguments.filled(running)
        stream = running.stream if self._lane is None else self._lane
        config = self._config
        if config.stream != stream:
            config = self._config = self._on(stream)
        status = self._launch(config.address, self._function, values, None)
        if status:
            check_launch(status, f"launch of {self._kernel.name} on cuda:{self._kernel.device}")

    def _on(self, stream: int) -> Configured:
        """Return the launch on a stream, as the driver reads it."""
        grid, threads, shared, cooperative = self._given
        return configured(grid, threads, shared, stream, cooperative)


def fill_again(recorder: Recorder, tensor: Tensor, byte: int) -> None:
    """Record that every byte of a tensor without gaps was set."""
    place = recorder.place(tensor.data_ptr())
    recorder.add(_Refill(place, byte, tensor.nbytes), [place])


class _Refill:
    """Fill of every byte of a tensor."""

    __slots__ = ("_byte", "_fill", "_place", "_size")

    def __init__(self, place: Place, byte: int, size: int) -> None:
        self._place, self._byte, self._size = place, byte, size
        self._fill = keeping("cuMemsetD8Async")

    def __call__(self, running: Running) -> None:
        slot, offset = self._place
        begin = running.addresses[slot] + offset
        status = self._fill(begin, self._byte, self._size, running.stream)
        if status:
            check(status)


@lru_cache(maxsize=256)
def _addresses(struct: type[Any], first: int = 0) -> tuple[int, ...]:
    """Return the numbers of the words of a struct, or of an array, that are addresses."""
    if struct is ctypes.c_void_p:
        return (first,)
    if issubclass(struct, ctypes.Array):
        each: Any = struct._type_
        words, count = ctypes.sizeof(each) // _WORD, ctypes.sizeof(struct) // ctypes.sizeof(each)
        return tuple(word for i in range(count) for word in _addresses(each, first + i * words))
    if not issubclass(struct, ctypes.Structure):
        return ()
    return tuple(
        word
        for name, kind, *_ in struct._fields_
        for word in _addresses(kind, first + getattr(struct, name).offset // _WORD)
    )
