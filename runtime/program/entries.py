"""Operations of a recorded call, one object each, which run again on other tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version


class Place(NamedTuple):
    """An address: a number of bytes after the first element of the tensor of a slot."""

    slot: int
    offset: int


class View(NamedTuple):
    """A tensor over the memory of another one, or that tensor itself if `whole`.

    The offset counts elements between the first elements of both.
    """

    slot: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    whole: bool

    def fills(self, count: int) -> bool:
        """Return True if it has so many elements, without gaps."""
        packed = 1
        for size, stride in zip(self.size[::-1], self.stride[::-1], strict=True):
            if size > 1 and stride != packed:
                return False
            packed *= size
        return packed == count

    def of(self, tensors: Sequence[Any]) -> Tensor:
        """Return the tensor. `tensors` are those of the call, by slot."""
        base: Tensor = tensors[self.slot]
        if self.whole:
            return base
        return base.as_strided(self.size, self.stride, base.storage_offset() + self.offset)


class Running:
    """A replay that runs. `stream` is the handle of the current stream.

    Attributes:
        tensors: by slot: the inputs of the call, None for each tensor that it makes, and constants.
        beside: the stream of torch beside the current one, while there is one.
        spent: whether an input of the call has been overwritten.
        undo: steps to take if the replay fails, the last one first.
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
    """Allocation of a tensor of the size, strides, dtype and device of `like`."""

    __slots__ = ("_dtype", "_stride", "device", "nbytes", "size", "slot")

    def __init__(self, slot: int, like: Tensor) -> None:
        self.slot, self.size, self.nbytes = slot, tuple(like.shape), like.nbytes
        self._dtype, self.device = like.dtype, like.device
        self._stride = None if like.is_contiguous() else like.stride()

    def reshape(self, view: View) -> bool:
        """Allocate a result in its own shape if it is all of the memory; return True if so."""
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
    """Allocation of one piece of memory for tensors that are used by their addresses alone.

    `offsets` are the first bytes of the slots, of which the first holds the memory.
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
    """Run of an operator of torch, with a view in place of each tensor of its arguments.

    It has no result slots if it changes tensors in place.
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
    """Return arguments with a tensor in place of each view."""
    if isinstance(value, View):
        return value.of(tensors)
    if isinstance(value, tuple | list):
        return [_with_tensors(each, tensors) for each in value]
    return value


class Overwrite:
    """Message to autograd that a tensor of the caller is overwritten."""

    __slots__ = ("_slot",)

    def __init__(self, slot: int) -> None:
        self._slot = slot

    def __call__(self, running: Running) -> None:
        """Tell autograd."""
        increment_version(running.tensors[self._slot])
        running.spent = True


class Free:
    """Release of tensors that nothing reads again."""

    __slots__ = ("_slots",)

    def __init__(self, slots: tuple[int, ...]) -> None:
        self._slots = slots

    def __call__(self, running: Running) -> None:
        """Release them."""
        for slot in self._slots:
            running.tensors[slot] = None
