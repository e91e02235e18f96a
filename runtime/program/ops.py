"""Operations of a program, one object each: run once on a call's tensors, or again on others."""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from .text import bytes_text, tensor_text

if TYPE_CHECKING:
    from .recorder import Recorder

_DOUBLE, _INTEGER = struct.Struct("=d"), struct.Struct("=q")


def aligned(addresses: Sequence[int]) -> bool:
    """Return True if kernels can read such addresses by their widest accesses, of 16 bytes."""
    bits = 0
    for address in addresses:
        bits |= address
    return not bits % 16


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
    """Run of operations. `stream` is the handle of the current stream.

    Where that one captures a graph, `of` is the stream that will run it.

    Attributes:
        tensors: by slot: the inputs of the call, None for each tensor that it makes, and constants;
            addresses are by slot too.
        beside: the stream of torch beside the current one, while there is one.
        spent: whether an input of the call has been overwritten.
        undo: steps to take if the run fails, the last one first.
    """

    __slots__ = ("_of", "addresses", "beside", "spent", "stream", "tensors", "undo")
    beside: Any

    def __init__(self, stream: int, tensors: Any = (), addresses: Any = (), of: Any = None) -> None:
        self.stream, self.tensors, self.addresses = stream, tensors, addresses
        self.spent, self.beside, self._of = False, None, of
        self.undo: list[Callable[[], None]] = []

    @property
    def owner(self) -> int:
        """Stream whose lasting memory is used: the current one, or that which a graph is for."""
        owner: int = self.stream if self._of is None else self._of
        return owner

    def give_up(self) -> None:
        """Leave the device and the process as if the run had not begun."""
        while self.undo:
            self.undo.pop()()


# Names memory: of a slot, or an offset in bytes behind the first element of one.
Name = Callable[[int, int], str]
# How an operation orders streams: forks and joins those of a wavefront, or splits the work of torch
# between two and ends that.
Order = Literal["", "fork", "join", "split", "unsplit"]


class Op(ABC):
    """Operation on a device.

    Attributes:
        order: how it orders streams, if it does.
        lane: the forked stream that it is issued on; None for the current one.
    """

    __slots__ = ()
    order: ClassVar[Order] = ""
    words: ClassVar[str] = ""
    lane: int | None = None

    @abstractmethod
    def __call__(self, running: Running) -> None:
        """Do it."""

    def place(self, recorder: Recorder) -> Sequence[int]:
        """Return the slots of the memory that it uses, and use those of each run from here on."""
        return ()

    def text(self, name: Name) -> str:
        """Return it in words; `name` gives the names of memory."""
        return self.words


class Addressed(Op):
    """Operation on memory whose addresses, 0 for none, are at `words` of 64-bit numbers.

    Until its memory is placed, it runs on the addresses that it was made with.
    """

    __slots__ = ("_numbers", "_words", "lane", "places")

    def __init__(self, numbers: array[int], words: Sequence[int], lane: int | None = None) -> None:
        self._numbers, self._words, self.lane = numbers, words, lane
        self.places: Sequence[tuple[int, int, int]] = ()

    def place(self, recorder: Recorder) -> Sequence[int]:
        """Return the slots of its addresses, and take those of each run from here on."""
        words = [word for word in self._words if self._numbers[word]]
        self.places = [(word, *recorder.place(self._numbers[word])) for word in words]
        return [slot for _, slot, _ in self.places]

    def named(self, name: Name) -> dict[int, str]:
        """Return the name of the memory at each word that is an address, once it is placed."""
        return {word: name(slot, offset) for word, slot, offset in self.places}

    def filled(self, running: Running) -> array[int]:
        """Return the numbers, with the addresses of a run."""
        if not self.places:
            return self._numbers
        addresses, numbers = running.addresses, self._numbers[:]
        for word, slot, offset in self.places:
            numbers[word] = addresses[slot] + offset
        return numbers


# An integer, a double, or the address of a tensor; None for null.
Field = int | float | Tensor | None


class Native(Addressed):
    """Call of a function of a library, whose only argument is a struct of fields of eight bytes.

    The fields are in the struct's order, with those of arrays in line.
    """

    __slots__ = ("_fields", "_function")

    def __init__(self, function: Callable[[bytes], object], fields: Sequence[Field]) -> None:
        numbers = [f if f.__class__ is int else 0 if f is None else _number(f) for f in fields]
        super().__init__(array("q", numbers), ())
        self._function, self._fields = function, fields

    def place(self, recorder: Recorder) -> Sequence[int]:
        """Return the slots of its addresses, and take those of each run from here on."""
        self._words = [i for i, f in enumerate(self._fields) if isinstance(f, Tensor)]
        self._fields = ()  # it holds no tensor of a call
        return super().place(recorder)

    def text(self, name: Name) -> str:
        """Return it in words."""
        called = getattr(self._function, "__name__", "a function")
        return f"call {called} on {', '.join(self.named(name).values())}"

    def __call__(self, running: Running) -> None:
        """Call it."""
        self._function(self.filled(running).tobytes())


def _number(field: float | Tensor) -> int:
    """Return the address of a tensor, or the bits of a double."""
    if isinstance(field, Tensor):
        return field.data_ptr()
    number: int = _INTEGER.unpack(_DOUBLE.pack(field))[0]
    return number


# Size, strides, dtype and device of a tensor.
Kind = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]


def kind_of_tensor(tensor: Tensor) -> Kind:
    """Return what allocations of tensors like one have in common."""
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device


class Allocate(Op):
    """Allocation of a tensor with the size, strides, dtype and device of another one.

    `like` is the slot of such a tensor, made before and not freed since, if there is one. torch
    makes a tensor like it in half the time that a tensor of given sizes takes.
    """

    __slots__ = ("_dtype", "_stride", "device", "like", "nbytes", "size", "slot")

    def __init__(self, slot: int, one: Tensor) -> None:
        self.slot, self.size, self.nbytes = slot, tuple(one.shape), one.nbytes
        self._dtype, self.device = one.dtype, one.device
        self._stride = None if one.is_contiguous() else one.stride()
        self.like: int | None = None

    def text(self, name: Name) -> str:
        """Return it in words."""
        sizes = tensor_text(self.size, self._dtype, self.nbytes)
        return f"allocate {name(self.slot, 0)}: {sizes}"

    def reshape(self, view: View) -> bool:
        """Allocate a result in its own shape if it is all of the memory; return True if so."""
        if self._stride is not None or view.offset or not view.fills(math.prod(self.size)):
            return False
        self.size = view.size
        return True

    @property
    def makes(self) -> Kind:
        """Kind of the tensor."""
        stride = self._stride or torch.empty(self.size, device="meta").stride()
        return self.size, stride, self._dtype, self.device

    def __call__(self, running: Running) -> None:
        """Allocate it."""
        size, dtype, device = self.size, self._dtype, self.device
        if self.like is not None:
            new = torch.empty_like(running.tensors[self.like])
        elif self._stride is None:
            new = torch.empty(size, dtype=dtype, device=device)
        else:
            new = torch.empty_strided(size, self._stride, dtype=dtype, device=device)
        running.tensors[self.slot] = new
        running.addresses[self.slot] = new.data_ptr()


class AllocateTogether(Op):
    """Allocation of one piece of memory, of the first slot, for tensors used by address alone."""

    __slots__ = ("_device", "_offsets", "nbytes", "slot")

    def __init__(self, offsets: dict[int, int], size: int, device: torch.device) -> None:
        self._offsets, self.slot = tuple(offsets.items()), next(iter(offsets))
        self.nbytes, self._device = size, device

    def text(self, name: Name) -> str:
        """Return it in words."""
        names = ", ".join(name(slot, 0) for slot, _ in self._offsets)
        return f"allocate {names} in one piece, {bytes_text(self.nbytes)}"

    def __call__(self, running: Running) -> None:
        """Allocate them."""
        memory = torch.empty(self.nbytes, dtype=torch.uint8, device=self._device)
        running.tensors[self.slot] = memory
        begin = memory.data_ptr()
        for slot, offset in self._offsets:
            running.addresses[slot] = begin + offset


class Operate(Op):
    """Run of an operator of torch on views; in place where it has no result slots."""

    __slots__ = ("_arguments", "_given", "_named", "_operator", "_slots")

    def __init__(
        self,
        operator: Callable[..., Any],
        arguments: Sequence[Any],
        named: dict[str, Any],
        slots: Sequence[int],
    ) -> None:
        self._operator, self._arguments, self._named = operator, arguments, named
        self._slots = slots
        # Lists are searched for tensors at each run only if they hold some.
        lists = [each for each in (*arguments, *named.values()) if not isinstance(each, View)]
        self._given = _with_tensors if _views(lists) else _with_tensor

    def text(self, name: Name) -> str:
        """Return it in words."""
        views = _views([*self._arguments, *self._named.values()])
        read = ", ".join(name(view.slot, 0) for view in views)
        to = ", ".join(name(slot, 0) for slot in self._slots)
        return f"torch's {self._operator}: {read}{' -> ' if to else ''}{to}"

    def __call__(self, running: Running) -> None:
        """Run it."""
        tensors, given = running.tensors, self._given
        arguments = [given(value, tensors) for value in self._arguments]
        named = {name: given(value, tensors) for name, value in self._named.items()}
        found = self._operator(*arguments, **named)
        if not self._slots:
            return
        results = found if isinstance(found, tuple | list) else (found,)
        for slot, result in zip(self._slots, results, strict=True):
            tensors[slot], running.addresses[slot] = result, result.data_ptr()


def _with_tensor(value: Any, tensors: Sequence[Any]) -> Any:
    """Return an argument, or the tensor of a view."""
    return value.of(tensors) if isinstance(value, View) else value


def _with_tensors(value: Any, tensors: Sequence[Any]) -> Any:
    """Return arguments with a tensor in place of each view."""
    if isinstance(value, View):
        return value.of(tensors)
    if isinstance(value, tuple | list):
        return [_with_tensors(each, tensors) for each in value]
    return value


def _views(value: Any) -> list[View]:
    """Return the views among arguments."""
    if isinstance(value, View):
        return [value]
    if isinstance(value, tuple | list):
        return [view for each in value for view in _views(each)]
    return []


class Overwrite(Op):
    """Message to autograd that a tensor of the caller is overwritten."""

    __slots__ = ("_slot",)

    def __init__(self, slot: int) -> None:
        self._slot = slot

    def text(self, name: Name) -> str:
        """Return it in words."""
        return f"from here on {name(self._slot, 0)} is overwritten"

    def __call__(self, running: Running) -> None:
        """Tell autograd."""
        increment_version(running.tensors[self._slot])
        running.spent = True


class Free(Op):
    """Release of tensors that nothing reads again."""

    __slots__ = ("slots",)

    def __init__(self, slots: tuple[int, ...]) -> None:
        self.slots = slots

    def text(self, name: Name) -> str:
        """Return it in words."""
        return f"free {', '.join(name(slot, 0) for slot in self.slots)}"

    def __call__(self, running: Running) -> None:
        """Release them."""
        for slot in self.slots:
            running.tensors[slot] = None
