"""What a recorded call did, one object per operation; each does it again on other tensors."""

from __future__ import annotations

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
        spent: whether an input of the call has been overwritten.
    """

    __slots__ = ("addresses", "spent", "stream", "tensors")

    def __init__(self, tensors: list[Any], addresses: list[int], stream: int) -> None:
        self.tensors, self.addresses, self.stream = tensors, addresses, stream
        self.spent = False


# Does one operation of a call again.
Entry = Callable[[Running], None]


class Allocate:
    """Allocate a tensor.

    Args:
        slot: of the tensor.
        like: gives size, strides, dtype and device.
    """

    __slots__ = ("_device", "_dtype", "_size", "_slot", "_stride")

    def __init__(self, slot: int, like: Tensor) -> None:
        self._slot, self._size = slot, tuple(like.shape)
        self._dtype, self._device = like.dtype, like.device
        self._stride = None if like.is_contiguous() else like.stride()

    def __call__(self, running: Running) -> None:
        """Allocate it."""
        size, dtype, device = self._size, self._dtype, self._device
        if self._stride is None:
            new = torch.empty(size, dtype=dtype, device=device)
        else:
            new = torch.empty_strided(size, self._stride, dtype=dtype, device=device)
        running.tensors[self._slot] = new
        running.addresses[self._slot] = new.data_ptr()


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
