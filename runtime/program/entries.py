"""What a recorded call did, one object per operation; each does it again on other tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version


class Place(NamedTuple):
    """An address within the memory of a call.

    Attributes:
        slot: the number of the tensor that it lies in.
        offset: bytes after that tensor's first element.
    """

    slot: int
    offset: int


class View(NamedTuple):
    """A tensor over the memory of another one.

    Attributes:
        slot: the number of the other tensor.
        size: of each axis.
        stride: of each axis.
        offset: elements between the first elements of both.
        whole: whether it is that tensor.
    """

    slot: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    whole: bool

    def fills(self, count: int) -> bool:
        """Whether it has so many elements, without gaps.

        Args:
            count: of the elements.
        """
        packed = 1
        for size, stride in zip(self.size[::-1], self.stride[::-1], strict=True):
            if size > 1 and stride != packed:
                return False
            packed *= size
        return packed == count

    def of(self, tensors: Sequence[Any]) -> Tensor:
        """The tensor.

        Args:
            tensors: of the call, by slot.
        """
        base: Tensor = tensors[self.slot]
        if self.whole:
            return base
        return base.as_strided(self.size, self.stride, base.storage_offset() + self.offset)


class Running:
    """A replay that runs.

    Args:
        tensors: by slot: the inputs of the call, None for each tensor that it makes, and constants.
        addresses: of the tensors.
        stream: the handle of the current stream.

    Attributes:
        beside: the stream of torch beside the current one, while there is one.
        spent: whether an input of the call has been overwritten.
        undo: what has to be done if the replay fails, the last one first.
    """

    __slots__ = ("addresses", "beside", "spent", "stream", "tensors", "undo")

    def __init__(self, tensors: list[Any], addresses: list[int], stream: int) -> None:
        self.tensors, self.addresses, self.stream = tensors, addresses, stream
        self.spent, self.undo = False, list[Callable[[], None]]()
        self.beside: Any = None

    def give_up(self) -> None:
        """Leave the device and the process as if the replay had not begun."""
        while self.undo:
            self.undo.pop()()


# Does one operation of a call again.
Entry = Callable[[Running], None]


class Allocate:
    """Allocate a tensor.

    Args:
        slot: of the tensor.
        like: gives size, strides, dtype and device.

    Attributes:
        slot: of the tensor.
        size: of each axis.
        nbytes: of all elements.
        device: of the tensor.
    """

    __slots__ = ("_dtype", "_stride", "device", "nbytes", "size", "slot")

    def __init__(self, slot: int, like: Tensor) -> None:
        self.slot, self.size, self.nbytes = slot, tuple(like.shape), like.nbytes
        self._dtype, self.device = like.dtype, like.device
        self._stride = None if like.is_contiguous() else like.stride()

    def reshape(self, view: View) -> bool:
        """Allocate a result in its own shape, if it is all of the memory; whether it is.

        Args:
            view: the result.
        """
        if self._stride is not None or view.offset or not view.fills(math.prod(self.size)):
            return False
        self.size = view.size
        return True

    def __call__(self, running: Running) -> None:
        """Allocate it."""
        size, dtype, device = self.size, self._dtype, self.device
        if self._stride is None:
            new = torch.empty(size, dtype=dtype, device=device)
        else:
            new = torch.empty_strided(size, self._stride, dtype=dtype, device=device)
        running.tensors[self.slot] = new
        running.addresses[self.slot] = new.data_ptr()


class AllocateTogether:
    """Allocate several tensors that are used by their addresses alone, in one piece of memory.

    Args:
        offsets: where each slot begins; the first slot holds the memory.
        size: bytes of the memory.
        device: of the memory.
    """

    __slots__ = ("_device", "_offsets", "_size", "_slot")

    def __init__(self, offsets: dict[int, int], size: int, device: torch.device) -> None:
        self._offsets, self._slot = tuple(offsets.items()), next(iter(offsets))
        self._size, self._device = size, device

    def __call__(self, running: Running) -> None:
        """Allocate them."""
        memory = torch.empty(self._size, dtype=torch.uint8, device=self._device)
        running.tensors[self._slot] = memory
        begin = memory.data_ptr()
        for slot, offset in self._offsets:
            running.addresses[slot] = begin + offset


class Operate:
    """Run an operator of torch.

    Args:
        operator: of torch.
        arguments: a view in place of each tensor.
        named: the arguments by name, likewise.
        slots: of its results; none where it changes tensors in place.
    """

    __slots__ = ("_arguments", "_named", "_operator", "_slots")

    def __init__(
        self,
        operator: Callable[..., Any],
        arguments: Sequence[Any],
        named: dict[str, Any],
        slots: Sequence[int],
    ) -> None:
        self._operator, self._arguments, self._named = operator, arguments, named
        self._slots = slots

    def __call__(self, running: Running) -> None:
        """Run it."""
        tensors = running.tensors
        arguments = _with_tensors(self._arguments, tensors)
        named = {name: _with_tensors(value, tensors) for name, value in self._named.items()}
        found = self._operator(*arguments, **named)
        if not self._slots:
            return
        results = found if isinstance(found, tuple | list) else (found,)
        for slot, result in zip(self._slots, results, strict=True):
            tensors[slot], running.addresses[slot] = result, result.data_ptr()


def _with_tensors(value: Any, tensors: Sequence[Any]) -> Any:
    """Arguments with a tensor in place of each view."""
    if isinstance(value, View):
        return value.of(tensors)
    if isinstance(value, tuple | list):
        return [_with_tensors(each, tensors) for each in value]
    return value


class Overwrite:
    """Tell autograd that a tensor of the caller is overwritten.

    Args:
        slot: of the tensor.
    """

    __slots__ = ("_slot",)

    def __init__(self, slot: int) -> None:
        self._slot = slot

    def __call__(self, running: Running) -> None:
        """Tell it."""
        increment_version(running.tensors[self._slot])
        running.spent = True


class Free:
    """Let tensors go that nothing reads again.

    Args:
        slots: of the tensors.
    """

    __slots__ = ("_slots",)

    def __init__(self, slots: tuple[int, ...]) -> None:
        self._slots = slots

    def __call__(self, running: Running) -> None:
        """Let them go."""
        for slot in self._slots:
            running.tensors[slot] = None
