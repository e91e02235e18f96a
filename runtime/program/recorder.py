"""Recorder of the program of a call, while the call runs.

Operators of torch are seen by a dispatch mode. All other work is an `Op`, which `issue` does and
adds to the program. Work that cannot be done again refuses, and then there is no program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.utils._python_dispatch import TorchDispatchMode

from ..call.tensors import SomeTensors
from .compact import Recorded, Slot, overlap, weak_storage
from .ops import Allocate, Op, Operate, Overwrite, Running, View, aligned

_aten = torch.ops.aten
_ALLOCATES = frozenset(
    (
        _aten.empty.memory_format,
        _aten.empty_strided.default,
        _aten.empty_like.default,
        _aten.new_empty.default,
        _aten.new_empty_strided.default,
    )
)


class _Here(threading.local):
    # The default of threads that record nothing. Without it each look raises an AttributeError
    # inside, whose text takes a microsecond.
    recorder: Recorder | None = None


_here = _Here()


def recording() -> Recorder | None:
    """Return the recorder of this thread's calls; None if there is none."""
    return _here.recorder


def issue(op: Op, running: Running) -> None:
    """Do an operation, and add it to the program that this thread records, if it records one.

    The operation answers for all that it does: nothing of it is recorded by itself.
    """
    recorder = recording()
    if recorder is None:
        op(running)
    elif recorder.runs:
        _here.recorder = None
        try:
            op(running)
        finally:
            _here.recorder = recorder
    if recorder is not None:
        recorder.add(op)


def overwrite(tensor: Tensor) -> None:
    """Tell autograd that a call overwrites one of its inputs, now and whenever it is run again."""
    increment_version(tensor)
    recorder = recording()
    if recorder is not None:
        recorder.overwrite(tensor)


def refuse_recording() -> None:
    """Mark the call of this thread as one that cannot be replayed."""
    recorder = recording()
    if recorder is not None:
        recorder.refused = True


class Parts(NamedTuple):
    """Parts of a program, of which the operations make so many tensors.

    Constants outlive calls: the first has the slot -1, the second -2. So many inputs are empty.
    """

    ops: Sequence[Op]
    made: int
    constants: Sequence[Tensor]
    results: Sequence[View | None]
    empty: int


class Recorder(TorchDispatchMode):
    """Recorder of one call, as a context around it. A call that is `refused` cannot be replayed.

    It `runs` what it records on a device that is there. Else nothing runs, and `address_of` gives
    the addresses of tensors without memory. It counts its launches.
    """

    def __init__(
        self, inputs: Sequence[Tensor], address_of: Callable[[Tensor], int] | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.runs, self.launches = address_of is None, 0
        self._address = address_of or Tensor.data_ptr
        self._ops: list[Op] = []
        self._used: list[set[int]] = []  # the slots of each operation
        self._as_tensors: set[int] = set()  # the slots that operators of torch read or write
        self._slots: list[Slot] = [self._slot_of(tensor, own=False) for tensor in inputs]
        self._inputs, self._constants = len(inputs), list[Tensor]()
        # Their slots are negative: how many tensors the call makes is not known yet.
        self._constant_slots: list[Slot] = []
        # The slots that other streams use since they were forked; None while there are none.
        self._beside: set[int] | None = None
        self._launching = False  # on other streams
        # The slots used since work was split between two streams of torch; None while it is not.
        self._split: set[int] | None = None
        self.refused = not aligned([slot.begin for slot in self._slots]) or overlap(self._slots)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch wraps `__torch_dispatch__`, and its first call imports torch._dynamo. A
        # call that is compiled is an operator, so nothing that is recorded is traced.
        return False

    def __enter__(self) -> Recorder:
        _here.recorder = self
        return super().__enter__()  # type: ignore[no-untyped-call, no-any-return]

    def __exit__(self, *error: Any) -> None:
        _here.recorder = None
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        found = func(*args, **named)
        if not self.refused and recording() is self:
            self._see(func, args, named, found)
        return found

    def add(self, op: Op) -> None:
        """Add an operation that torch does not see."""
        slots, divided = set(op.place(self)), (self._split, self._beside) != (None, None)
        if op.order == "join":
            # Other streams may use their memory until then.
            slots, self._beside = self._beside or set(), None
        elif op.order == "unsplit":
            # Until then nothing is freed that either stream used: the other one may get it.
            slots, self._split = self._split or set(), None
        elif op.lane is not None and self._beside is not None:
            self._beside |= slots
        elif op.lane is not None or (op.order == "split" and divided):
            self.refused = True  # nothing says when it has run
        self._add(op, slots)
        if op.order == "fork":
            self._beside, self._launching = set(), True
        elif op.order == "split":
            self._split = set()

    @contextmanager
    def as_one(self, make: Callable[[Sequence[Op], Sequence[int]], Op]) -> Iterator[None]:
        """Record the work of this context as one operation, which `make` gives of all."""
        first = len(self._ops)
        yield
        ops, slots = self._ops[first:], set().union(*self._used[first:])
        del self._ops[first:], self._used[first:]
        self._add(make(ops, sorted(slots)), slots)

    def launched(self) -> None:
        """Record that all forked streams have their work. Torch runs no operator before."""
        self._launching = False

    def view(self, tensor: Tensor) -> View:
        """Return a tensor over the memory of a slot, for an operation that reads it as a tensor."""
        view = self._view(tensor)
        self._as_tensors.add(view.slot)
        return view

    def place(self, address: int) -> tuple[int, int]:
        """Return the slot of an address and the bytes before it; refuse if nothing holds it."""
        for slot in range(len(self._slots) - 1, -1, -1):
            if self._slots[slot].holds(address):
                return slot, address - self._slots[slot].begin
        for number, constant in enumerate(self._constant_slots):
            if constant.holds(address):
                return -1 - number, address - constant.begin
        self.refused = True
        return 0, 0

    def keep(self, constant: Tensor) -> None:
        """Record, and keep, a tensor that the call reads, that outlives it and never changes."""
        if all(constant is not known for known in self._constants):
            self._constants.append(constant)
            self._constant_slots.append(self._slot_of(constant, own=False))

    def overwrite(self, tensor: Tensor) -> None:
        """Record that the call overwrites one of its inputs."""
        slot = self._view(tensor).slot
        self._add(Overwrite(slot), {slot})

    def parts(self, results: SomeTensors) -> Parts | None:
        """Return what the program of the call is made of; None if it cannot be run again."""
        if self.refused:
            return None
        views = [None if result is None else self._view(result) for result in results]
        if self.refused:
            return None
        recorded = Recorded(self._ops, self._used, self._inputs, self._as_tensors, views)
        made, begins = len(self._slots) - self._inputs, [slot.begin for slot in self._slots]
        empty = begins[: self._inputs].count(0)
        return Parts(recorded.compact(), made, self._constants, recorded.results, empty)

    def _add(self, op: Op, slots: set[int]) -> None:
        self._ops.append(op)
        self._used.append(slots)
        if self._split is not None:
            self._split |= slots

    def _see(self, func: Any, args: Any, named: dict[str, Any], found: Any) -> None:
        """Record an operation of torch, whose results are known."""
        results = list(found) if isinstance(found, tuple | list) else [found]
        if self._launching or not all(isinstance(result, Tensor) for result in results):
            self.refused = True
        elif func in _ALLOCATES:
            if not found.numel():
                self.keep(found)
                return
            slots = self._new(results)
            self._add(Allocate(slots[0], found), set(slots))
        else:
            known = [self._slot(result) is not None for result in results]
            if all(known) and not func._schema.is_mutable:
                return  # views
            if any(known) != all(known):
                self.refused = True
                return
            used: set[int] = set()
            arguments = [self._described(value, used) for value in args]
            others = {name: self._described(value, used) for name, value in named.items()}
            new = () if all(known) else self._new(results)
            self._as_tensors.update(new)
            self._add(Operate(func, arguments, others, new), used.union(new))

    def _slot_of(self, tensor: Tensor, own: bool) -> Slot:
        return Slot(tensor, self._address(tensor), own)

    def _new(self, tensors: Sequence[Tensor]) -> Sequence[int]:
        """Return slots for new tensors."""
        count = len(self._slots)
        self._slots.extend(self._slot_of(tensor, own=True) for tensor in tensors)
        return range(count, len(self._slots))

    def _described(self, value: Any, used: set[int]) -> Any:
        """Return arguments with a view in place of each tensor."""
        if isinstance(value, Tensor):
            view = self.view(value)
            used.add(view.slot)
            return view
        if isinstance(value, tuple | list):
            return [self._described(each, used) for each in value]
        return value

    def _view(self, tensor: Tensor) -> View:
        """Return a tensor over the memory of a slot; refuse if there is none."""
        number = self._slot(tensor)
        if number is None:
            self.refused = True
            return View(0, (), (), 0, True)
        slot = self._slots[number] if number >= 0 else self._constant_slots[-1 - number]
        size, stride, offset = tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())
        if tensor.dtype != slot.dtype or tensor.is_conj() or tensor.is_neg():
            self.refused = True
        whole = (size, stride, offset) == (slot.size, slot.stride, slot.offset)
        return View(number, size, stride, offset - slot.offset, whole)

    def _slot(self, tensor: Tensor) -> int | None:
        """Return the number of the slot whose memory a tensor has."""
        storage, address = weak_storage(tensor), self._address(tensor)
        for number in range(len(self._slots) - 1, -1, -1):
            slot = self._slots[number]
            own = slot.storage == storage
            if own and (not tensor.numel() or slot.begin <= address < slot.end):
                return number
        for number, slot in enumerate(self._constant_slots):
            if slot.storage == storage:
                return -1 - number
        return None
