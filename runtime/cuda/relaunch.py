"""Launches and fills of a recorded call, done again with other addresses."""

from __future__ import annotations

import ctypes
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..replay.entries import Place, Running
from ..replay.recorder import Recorder
from .driver.driver import as_residency

if TYPE_CHECKING:
    from .launch import Kernel

_WORD = 8  # bytes


class Arguments:
    """The argument of a recorded launch: a struct, in which addresses of the call change.

    Args:
        recorder: records the call.
        struct: was passed by value.

    Attributes:
        places: what the addresses lie in.
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
        """What the driver reads, by its address, and the memory that it lies in.

        Args:
            running: gives the addresses.
        """
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
    """Record a launch.

    Args:
        recorder: records the call.
        kernel: was launched.
        grid: its blocks in x, y and z.
        arguments: was passed by value.
        lane: the handle of the forked stream that it was launched on; None for the current one.
    """
    again = Arguments(recorder, arguments)
    recorder.add(_Relaunch(kernel, grid, again, lane), again.places, lane is not None)


class _Relaunch:
    """A launch of a call on the current device.

    Args:
        kernel: is launched.
        grid: its blocks in x, y and z.
        arguments: of the launch.
        lane: the handle of its stream; None for the current one.
    """

    __slots__ = ("_arguments", "_before", "_kernel", "_lane", "_launch", "_resident")

    def __init__(
        self, kernel: Kernel, grid: tuple[int, int, int], arguments: Arguments, lane: int | None
    ) -> None:
        from cupy_backends.cuda.api import driver

        self._resident = kernel.resident is not None
        launch: Any = driver.launchCooperativeKernel if self._resident else driver.launchKernel
        self._kernel, self._launch, self._lane = kernel, launch, lane
        self._before = (kernel.function, *grid, kernel.threads, 1, 1, kernel.shared)
        self._arguments = arguments

    def __call__(self, running: Running) -> None:
        """Launch it."""
        values, _kept = self._arguments.filled(running)
        lane = self._lane
        where = *self._before, running.stream if lane is None else lane, values
        try:
            if self._resident:
                self._launch(*where)
            else:
                self._launch(*where, 0)
        except RuntimeError as error:
            what = f"launch of {self._kernel.name} on cuda:{self._kernel.device}"
            raise as_residency(error, what) from None


def fill_again(recorder: Recorder, tensor: Tensor, byte: int) -> None:
    """Record that every byte of a tensor was set.

    Args:
        recorder: records the call.
        tensor: without gaps.
        byte: 0 to 255.
    """
    place = recorder.place(tensor.data_ptr())
    recorder.add(_Refill(place, byte, tensor.nbytes), [place])


class _Refill:
    """Sets every byte of a tensor.

    Args:
        place: of the tensor.
        byte: 0 to 255.
        size: bytes.
    """

    __slots__ = ("_byte", "_fill", "_place", "_size")

    def __init__(self, place: Place, byte: int, size: int) -> None:
        from cupy_backends.cuda.api import runtime

        self._place, self._byte, self._size, self._fill = place, byte, size, runtime.memsetAsync

    def __call__(self, running: Running) -> None:
        """Set them."""
        slot, offset = self._place
        self._fill(running.addresses[slot] + offset, self._byte, self._size, running.stream)


@lru_cache(maxsize=256)
def _addresses(struct: type[Any], first: int = 0) -> tuple[int, ...]:
    """Which words of a struct, or of an array, are addresses."""
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
