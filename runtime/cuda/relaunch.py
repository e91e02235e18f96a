"""Launches and fills of a recorded call, done again with other addresses."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..replay.entries import Place, Running
from ..replay.recorder import Recorder
from .driver.driver import as_residency

if TYPE_CHECKING:
    from .launch import Kernel

_WORD = 8  # bytes


def relaunch(
    recorder: Recorder, kernel: Kernel, grid: tuple[int, int, int], arguments: ctypes.Structure
) -> None:
    """Record a launch.

    Args:
        recorder: records the call.
        kernel: was launched.
        grid: its blocks in x, y and z.
        arguments: was passed by value.
    """
    numbers = array("q", bytes(arguments))
    words, places = [], []
    for word in _addresses(type(arguments)):
        if numbers[word]:
            words.append(word)
            places.append(recorder.place(numbers[word]))
    recorder.add(_Relaunch(kernel, grid, numbers, words, places), places)


class _Relaunch:
    """A launch on the current stream, of a call on the current device.

    Args:
        kernel: is launched.
        grid: its blocks in x, y and z.
        numbers: the struct of its arguments.
        words: which of the numbers are addresses.
        places: where they lie.
    """

    __slots__ = ("_before", "_behind", "_kernel", "_launch", "_numbers", "_places", "_resident")

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        numbers: array[int],
        words: Sequence[int],
        places: Sequence[Place],
    ) -> None:
        from cupy_backends.cuda.api import driver

        self._resident = kernel.resident is not None
        launch: Any = driver.launchCooperativeKernel if self._resident else driver.launchKernel
        self._kernel, self._launch = kernel, launch
        self._before = (kernel.function, *grid, kernel.threads, 1, 1, kernel.shared)
        # The driver reads the address of the only argument, which lies behind the argument.
        self._numbers = array("q", [*numbers, 0])
        self._behind = len(numbers)
        self._places = [(word, *place) for word, place in zip(words, places, strict=True)]

    def __call__(self, running: Running) -> None:
        """Launch it."""
        addresses, numbers = running.addresses, self._numbers[:]
        for word, slot, offset in self._places:
            numbers[word] = addresses[slot] + offset
        begin, _ = numbers.buffer_info()
        numbers[self._behind] = begin
        where = *self._before, running.stream, begin + self._behind * _WORD
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
