"""Launches on the current device: of a kernel, a plan and a fill, with room in the queue."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ...errors import ResidencyError
from ..program.ops import Addressed, Name, Op, Running
from ..program.recorder import issue, recording
from ..program.text import bytes_text
from .arguments import WORD
from .driver.blocks import Configured, check_launch, configured
from .driver.device import is_described
from .driver.driver import check, keeping, letting_go
from .driver.room import make_room
from .driver.streams import current_stream, is_capturing

# A launch takes the host some 4 us with what is around it.
_LAUNCHES_PER_ROOM = 64


@dataclass(frozen=True)
class Kernel:
    """Entry point of a compiled source, on one device.

    Launches whose blocks all wait for each other are cooperative. No order is kept between two of
    them on different streams, or in branches of a graph, for they cannot block each other with a
    part of the device each: once a thread of a cooperative grid makes progress, all threads of that
    grid eventually do, and of other grids all threads of its cluster (CUDA C++ execution model,
    "Device threads": nvidia.github.io/cccl/libcudacxx/extended_api/execution_model.html). Nor do
    they share memory: each call has an exchange buffer of its own.

    Attributes:
        shared: bytes of shared memory of a block.
        module: keeps the kernel loaded.
        resident: if all blocks of a launch wait for each other, how many of them the device holds
            at once; else None, and a launch may have any number of blocks.
    """

    name: str
    function: int
    threads: int
    shared: int
    module: Any
    device: int
    resident: int | None = None

    def __call__(
        self, grid: tuple[int, int, int], arguments: ctypes.Structure, lane: int | None = None
    ) -> None:
        """Launch on torch's current stream of the current device; return at once.

        `lane` is the handle of a stream to launch on instead, which the current stream will wait
        for. If that captures, the caller keeps the kernel as long as the graph.
        """
        # The driver names no size where this does not fit.
        if self.resident is not None:
            check_room(self, grid[0] * grid[1] * grid[2], self.resident)
        stream = lane
        if stream is None:
            stream = current_stream(self.device)
            if is_capturing(self.device):
                never_unload(self)
            elif not is_described(self.device):
                make_room(self.device, stream)
        recorder = recording()
        if recorder is not None:
            recorder.launches += 1
            if not recorder.launches % _LAUNCHES_PER_ROOM:
                recorder.add(MakeRoom(self.device))
        issue(Launch(self, grid, arguments, lane), Running(stream))


def fill_bytes(tensor: Tensor, byte: int) -> None:
    """Set all bytes of a tensor without gaps, on torch's current stream of the current device."""
    stream = current_stream(tensor.device.index)
    issue(Fill(tensor, byte), Running(stream))


def filled(struct: type[ctypes.Structure], *values: int | Tensor | None) -> ctypes.Structure:
    """Return a struct of 64-bit fields, filled at once: field by field takes as long as a launch.

    For each field, and each element of one, a value is a number, None for 0, or a tensor, whose
    address is taken. The struct keeps the tensors.
    """
    numbers = array(
        "q", [v if isinstance(v, int) else 0 if v is None else v.data_ptr() for v in values]
    )
    found: Any = struct.from_buffer(numbers)
    found.tensors = values  # for as long as the struct has their addresses
    return found  # type: ignore[no-any-return]


# Of kernels that were launched into a caller's graph: nobody tells when that graph is gone.
_FOR_GOOD: dict[int, Any] = {}


def never_unload(kernel: Kernel) -> None:
    """Keep a kernel loaded until the process ends."""
    _FOR_GOOD[id(kernel.module)] = kernel.module


def check_room(kernel: Kernel, blocks: int, resident: int) -> None:
    """Refuse blocks that wait for each other if a device holds fewer, with a ResidencyError."""
    if blocks > resident:
        raise ResidencyError(
            f"launch of {kernel.name} on cuda:{kernel.device}",
            f"{blocks} blocks that wait for each other, each with {kernel.threads} threads and"
            f" {kernel.shared} bytes of shared memory",
            f"at most {resident} blocks, which the device holds at once",
            'variant="alternating", fewer heads, or a smaller head_dim',
        )


class CallSizes(NamedTuple):
    """Sizes of a call that a launcher is made for: rows, heads and units per head, but no steps."""

    batch: int
    heads: int
    dim: int


class Launcher(ABC):
    """Launcher of the kernels of one direction of a plan, for calls of one size on one device.

    It is made once and serves all such calls, on all streams and threads. So it holds kernels and
    sizes, but no tensor and no address of a call. A call can be replayed without a `recorded`
    launcher, which does nothing on the device but by calls of `Kernel` and by operators of torch.
    """

    __slots__ = ()

    recorded = False

    def matrix(self, R: Tensor | None) -> Tensor | None:
        """Return R, (Gr, N, D out, D in), as kernels read it; None if there is no dense gate."""
        return R

    @abstractmethod
    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps on torch's current stream, by a direction's arguments and R of `matrix`."""


_COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
# The handles of kernels that were launched once: the first launch may load a kernel, and wait.
_LOADED: set[int] = set()


class Launch(Addressed):
    """Launch of a kernel on the current device, whose only argument is a struct."""

    __slots__ = ("_config", "grid", "kernel", "struct")

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        arguments: ctypes.Structure,
        lane: int | None,
    ) -> None:
        # The driver reads the address of the only argument, which lies behind the argument.
        numbers = array("q", bytes(arguments))
        numbers.append(0)
        struct: Any = type(arguments)
        super().__init__(numbers, [word for word, _ in struct.addresses], lane)
        self.kernel, self.grid, self.struct = kernel, grid, struct
        self._config: Configured | None = None

    def text(self, name: Name) -> str:
        """Return it in words."""
        kernel, blocks = self.kernel, " x ".join(map(str, self.grid))
        given = fields_text(self, self.struct, name)
        return f"launch {kernel.name}, {blocks} blocks of {kernel.threads} threads: {given}"

    def __call__(self, running: Running) -> None:
        """Launch it; return at once."""
        numbers = self.filled(running)
        begin, count = numbers.buffer_info()
        numbers[count - 1] = begin
        stream = running.stream if self.lane is None else self.lane
        config, kernel = self._config, self.kernel
        if config is None or config.stream != stream:
            cooperative = None if kernel.resident is None else _COOPERATIVE
            config = configured(self.grid, kernel.threads, kernel.shared, stream, cooperative)
            self._config = config
        launch = (keeping if kernel.function in _LOADED else letting_go).cuLaunchKernelEx
        status = launch(config.address, kernel.function, begin + (count - 1) * WORD, None)
        if status:
            check_launch(status, f"launch of {kernel.name} on cuda:{kernel.device}")
        _LOADED.add(kernel.function)


def fields_text(op: Addressed, struct: Any, name: Name) -> str:
    """Return the memory that an operation gives to a struct, by the names of the fields."""
    fields = dict(struct.addresses)
    return ", ".join(f"{fields[word]} = {memory}" for word, memory in op.named(name).items())


class Fill(Addressed):
    """Setting of all bytes of a tensor without gaps, on the current stream."""

    __slots__ = ("_byte", "_size")

    def __init__(self, tensor: Tensor, byte: int) -> None:
        super().__init__(array("q", [tensor.data_ptr()]), (0,))
        self._byte, self._size = byte, tensor.nbytes

    def text(self, name: Name) -> str:
        """Return it in words."""
        (memory,) = self.named(name).values()
        return f"set each byte of {memory} to {self._byte:#x}, {bytes_text(self._size)}"

    def __call__(self, running: Running) -> None:
        """Set them."""
        (begin,) = self.filled(running)
        status = keeping.cuMemsetD8Async(begin, self._byte, self._size, running.stream)
        if status:
            check(status)


class MakeRoom(Op):
    """Wait for room in the queue of the current stream, where a launch would wait for it."""

    __slots__ = ("_device",)
    words = "wait for room in the queue of the stream, where there is none"

    def __init__(self, device: int) -> None:
        self._device = device

    def __call__(self, running: Running) -> None:
        """Wait, if it is needed."""
        make_room(self._device, running.stream)
