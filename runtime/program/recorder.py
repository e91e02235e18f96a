"""Recorder of the work that a call asks of the device, while it runs.

Operations of torch are seen by a dispatch mode. Launches and products that reach the device in
another way report themselves, by `recording`: each by an entry that does it again. An operation
that cannot be done again refuses, and then nothing is recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .compact import Recorded
from .entries import Allocate, Entry, Operate, Overwrite, Place, View
from .replay import Replay, aligned
from .slots import Slot, overlap, weak_storage

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
_here = threading.local()


def recording() -> Recorder | None:
    """Return the recorder of this thread's calls; None if there is none."""
    return getattr(_here, "recorder", None)


def refuse_recording() -> None:
    """Mark the call of this thread as one that cannot be replayed."""
    recorder = recording()
    if recorder is not None:
        recorder.refused = True


class Recorder(TorchDispatchMode):
    """Recorder of one call, as a context around it. A call that is `refused` cannot be replayed."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launches = 0
        self._entries: list[Entry] = []
        self._used: list[set[int]] = []  # the slots of each entry
        self._as_tensors: set[int] = set()  # the slots that operators of torch read or write
        self._slots: list[Slot] = [Slot(tensor, own=False) for tensor in inputs]
        self._inputs, self._constants = len(inputs), list[Tensor]()
        # Their slots are negative: how many tensors the call makes is not known yet.
        self._constant_slots: list[Slot] = []
        # The slots that other streams use since they were forked; None while there are none.
        self._beside: set[int] | None = None
        self._launching = False  # on other streams
        # The slots used since work was split between two streams of torch; None while it is not.
        self._split: set[int] | None = None
        self.refused = not aligned([t.data_ptr() for t in inputs]) or overlap(self._slots)

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
        if not self.refused:
            self._see(func, args, named, found)
        return found

    def add(self, entry: Entry, places: Sequence[Place], beside: bool = False) -> None:
        """Record an operation that torch does not see, with the memory that it reads and writes.

        If `beside`, it runs on a stream that was forked.
        """
        slots = {place.slot for place in places}
        self._add(entry, slots)
        if beside and self._beside is None:
            self.refused = True  # nothing says when it has run
        elif beside and self._beside is not None:
            self._beside |= slots

    @contextmanager
    def as_one(self, make: Callable[[Sequence[Entry], Sequence[int]], Entry]) -> Iterator[None]:
        """Record the work of this context, without operators of torch, as one entry.

        `make` gives it, from the entries that were recorded and the slots that they use.
        """
        first = len(self._entries)
        yield
        entries, slots = self._entries[first:], set().union(*self._used[first:])
        del self._entries[first:], self._used[first:]
        self._add(make(entries, sorted(slots)), slots)

    def fork(self, entry: Entry) -> None:
        """Record that other streams go on after the work of the current one so far."""
        self._add(entry, set())
        self._beside, self._launching = set(), True

    def launched(self) -> None:
        """Record that the other streams have all their work. Torch runs no operator before."""
        self._launching = False

    def join(self, entry: Entry) -> None:
        """Record that the current stream goes on after the others.

        They may use their memory until then.
        """
        self._add(entry, self._beside or set())
        self._beside = None

    def split(self, entry: Entry) -> None:
        """Record that a second stream of torch goes on after the work so far, beside the first."""
        self.refused |= self._split is not None or self._beside is not None
        self._add(entry, set())
        self._split = set()

    def unsplit(self, entry: Entry) -> None:
        """Record that the current stream goes on after both streams of torch.

        Until then nothing is freed that either used: the other one may get it.
        """
        used, self._split = self._split or set(), None
        self._add(entry, used)

    def place(self, address: int) -> Place:
        """Return the place of an address; refuse, with a meaningless one, if nothing holds it."""
        for slot in range(len(self._slots) - 1, -1, -1):
            if self._slots[slot].holds(address):
                return Place(slot, address - self._slots[slot].begin)
        for number, constant in enumerate(self._constant_slots):
            if constant.holds(address):
                return Place(-1 - number, address - constant.begin)
        self.refused = True
        return Place(0, 0)

    def keep(self, constant: Tensor) -> None:
        """Record, and keep, a tensor that the call reads, that outlives it and never changes."""
        if all(constant is not known for known in self._constants):
            self._constants.append(constant)
            self._constant_slots.append(Slot(constant, own=False))

    def overwrite(self, tensor: Tensor) -> None:
        """Record that the call overwrites one of its inputs."""
        slot = self._view(tensor).slot
        self._add(Overwrite(slot), {slot})

    def replay(self, results: Sequence[Tensor | None]) -> Replay | None:
        """Return the replay of the call; None if it cannot be replayed."""
        if self.refused:
            return None
        views = [None if result is None else self._view(result) for result in results]
        if self.refused:
            return None
        recorded = Recorded(self._entries, self._used, self._inputs, self._as_tensors, views)
        made, begins = len(self._slots) - self._inputs, [slot.begin for slot in self._slots]
        empty = begins[: self._inputs].count(0)
        return Replay(recorded.compact(), made, self._constants, recorded.results, empty)

    def _add(self, entry: Entry, slots: set[int]) -> None:
        self._entries.append(entry)
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
            self._as_tensors |= used
            self._add(Operate(func, arguments, others, new), used.union(new))

    def _new(self, tensors: Sequence[Tensor]) -> Sequence[int]:
        """Return slots for new tensors."""
        count = len(self._slots)
        self._slots.extend(Slot(tensor, own=True) for tensor in tensors)
        return range(count, len(self._slots))

    def _described(self, value: Any, used: set[int]) -> Any:
        """Return arguments with a view in place of each tensor."""
        if isinstance(value, Tensor):
            view = self._view(value)
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
        storage, address = weak_storage(tensor), tensor.data_ptr()
        for number in range(len(self._slots) - 1, -1, -1):
            slot = self._slots[number]
            own = slot.storage == storage
            if own and (not tensor.numel() or slot.begin <= address < slot.end):
                return number
        for number, slot in enumerate(self._constant_slots):
            if slot.storage == storage:
                return -1 - number
        return None
