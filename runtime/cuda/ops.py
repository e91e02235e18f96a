"""Operations of programs on a GPU: launches, fills, and room in the queue of a stream."""

from __future__ import annotations

import ctypes
from array import array
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..program.ops import Addressed, Name, Op, Running
from ..program.text import bytes_text
from .arguments import WORD
from .driver.driver import Configured, check, check_launch, configured, keeping, letting_go
from .driver.room import make_room

if TYPE_CHECKING:
    from .launch import Kernel

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
