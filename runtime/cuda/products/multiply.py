"""Launches of matrix products on the current stream, and their recording."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...program.entries import Place, Running
from ...program.recorder import recording
from ..driver.matmul import Matmul, Multiplies, multiplies
from ..memory.workspace import lasting_workspace, workspace_of


def multiply(kind: Matmul, device: int, first: int, second: int, to: int) -> None:
    """Launch a product, given by addresses, on torch's current stream of the current device."""
    stream, launch = torch._C._cuda_getCurrentRawStream(device), multiplies(kind, device)
    workspace = workspace_of(device, stream)
    launch(first, second, to, stream, workspace.data_ptr(), workspace.nbytes)
    recorder = recording()
    if recorder is not None:
        places = [recorder.place(address) for address in (first, second, to)]
        recorder.add(_Again(launch, device, places), places)


class _Again:
    """Product of a recorded call, on the current stream."""

    __slots__ = ("_device", "_launch", "_places")

    def __init__(self, launch: Multiplies, device: int, places: Sequence[Place]) -> None:
        self._launch, self._device, self._places = launch, device, tuple(places)

    def __call__(self, running: Running) -> None:
        addresses, stream = running.addresses, running.stream
        (first, begin), (second, then), (to, at) = self._places
        workspace = lasting_workspace(self._device, stream)
        self._launch(
            *(addresses[first] + begin, addresses[second] + then, addresses[to] + at),
            *(stream, workspace.data_ptr(), workspace.nbytes),
        )


def multiply_beside(
    launch: Multiplies,
    addresses: tuple[int, int, int],
    workspace: tuple[int, int],
    stream: int,
    lane: bool,
) -> None:
    """Launch a product that has memory of its own, and record it.

    The addresses are of the factors and of the result. The workspace is the address and the bytes
    of memory of the call, 0 and 0 for none. A lane is a stream that stays for good, and that the
    current one will wait for; without it the stream is the current one.
    """
    launch(*addresses, stream, *workspace)
    recorder = recording()
    if recorder is not None:
        places = [recorder.place(address) for address in addresses]
        if workspace[1]:
            places.append(recorder.place(workspace[0]))
        again = _AgainBeside(launch, places, workspace[1], stream if lane else None)
        recorder.add(again, places, beside=lane)


class _AgainBeside:
    """Product of a recorded call, with memory of its own; without a lane on the current stream."""

    __slots__ = ("_lane", "_launch", "_places", "_size")

    def __init__(
        self, launch: Multiplies, places: Sequence[Place], size: int, lane: int | None
    ) -> None:
        self._launch, self._places = launch, tuple([tuple(place) for place in places])
        self._size, self._lane = size, lane

    def __call__(self, running: Running) -> None:
        addresses, lane = running.addresses, self._lane
        given = [addresses[slot] + offset for slot, offset in self._places]
        workspace = given[3] if self._size else 0
        stream = running.stream if lane is None else lane
        self._launch(given[0], given[1], given[2], stream, workspace, self._size)
