"""Products of a recorded call, done again with other addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..replay.entries import Place, Running
from ..replay.recorder import Recorder
from .driver.cublas import Blas, check_status
from .memory.workspace import lasting_workspace

# Which arguments of `cublasGemmEx` and `cublasGemmStridedBatchedEx` are the addresses of matrices.
_OF_ONE, _OF_MANY = (7, 10, 14), (7, 11, 16)
_ARGUMENTS_OF_ONE = 19


def remultiply(
    recorder: Recorder,
    blas: Blas,
    device: int,
    function: Callable[..., int],
    arguments: Sequence[Any],
) -> None:
    """Record a product of the library.

    Args:
        recorder: records the call.
        blas: launched it.
        device: the device's number.
        function: of the library, for one product or for many.
        arguments: of the function.
    """
    at = _OF_ONE if len(arguments) == _ARGUMENTS_OF_ONE else _OF_MANY
    places = [recorder.place(arguments[number]) for number in at]
    recorder.add(_Remultiply(blas, device, function, arguments, at, places), places)


class _Remultiply:
    """A product on the current stream, of a call on the current device."""

    __slots__ = ("_arguments", "_blas", "_device", "_function", "_places")

    def __init__(
        self,
        blas: Blas,
        device: int,
        function: Callable[..., int],
        arguments: Sequence[Any],
        at: Sequence[int],
        places: Sequence[Place],
    ) -> None:
        self._blas, self._device = blas, device
        self._function, self._arguments = function, list(arguments)
        self._places = [(number, *place) for number, place in zip(at, places, strict=True)]

    def __call__(self, running: Running) -> None:
        """Launch it."""
        addresses, arguments = running.addresses, self._arguments[:]
        for number, slot, offset in self._places:
            arguments[number] = addresses[slot] + offset
        blas, stream = self._blas, running.stream
        memory = lasting_workspace(self._device, stream)
        with blas.lock:
            blas.at(stream, memory.data_ptr(), memory.nbytes)
            status = self._function(*arguments)
        check_status("cublasGemmEx", status)
