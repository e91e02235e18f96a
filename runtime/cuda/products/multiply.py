"""Launches a product of matrices on the current stream, and records it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...replay.entries import Place, Running
from ...replay.recorder import recording
from ..driver.matmul import Matmul, Multiplies, multiplies
from ..memory.workspace import lasting_workspace, workspace_of


def multiply(kind: Matmul, device: int, first: int, second: int, to: int) -> None:
    """Launch a product on torch's current stream.

    Args:
        kind: of the product.
        device: the device's number; it must be the current one.
        first: the address of the first factor.
        second: that of the second.
        to: that of the result.
    """
    stream, launch = torch._C._cuda_getCurrentRawStream(device), multiplies(kind, device)
    workspace = workspace_of(device, stream)
    launch(first, second, to, stream, workspace.data_ptr(), workspace.nbytes)
    recorder = recording()
    if recorder is not None:
        places = [recorder.place(address) for address in (first, second, to)]
        recorder.add(_Again(launch, device, places), places)


class _Again:
    """A product of a recorded call, on the current stream.

    Args:
        launch: launches it.
        device: the device's number.
        places: of the factors and of the result.
    """

    __slots__ = ("_device", "_launch", "_places")

    def __init__(self, launch: Multiplies, device: int, places: Sequence[Place]) -> None:
        self._launch, self._device, self._places = launch, device, tuple(places)

    def __call__(self, running: Running) -> None:
        """Launch it."""
        addresses, stream = running.addresses, running.stream
        (first, begin), (second, then), (to, at) = self._places
        workspace = lasting_workspace(self._device, stream)
        self._launch(
            *(addresses[first] + begin, addresses[second] + then, addresses[to] + at),
            *(stream, workspace.data_ptr(), workspace.nbytes),
        )
