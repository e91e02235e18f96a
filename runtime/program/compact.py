"""Memory of a recorded call: the tensors that it holds, and fewer allocations of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .ops import Allocate, AllocateTogether, Free, Op, View


class Slot:
    """Memory of a tensor at an address, or of its storage if `own`; neither is kept."""

    def __init__(self, tensor: Tensor, begin: int, own: bool) -> None:
        self.storage, self.dtype = weak_storage(tensor), tensor.dtype
        self.size, self.stride = tuple(tensor.shape), tensor.stride()
        self.offset = int(tensor.storage_offset())
        self.begin = begin
        if own:
            first = begin - self.offset * tensor.element_size()
            self.end = first + tensor.untyped_storage().nbytes()
        else:
            last = sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True))
            self.end = self.begin + (last + 1) * tensor.element_size()

    def holds(self, address: int) -> bool:
        """Return True if an address lies in it."""
        gone: Callable[[], bool] = self.storage.expired
        return self.begin <= address < self.end and not gone()


def weak_storage(tensor: Tensor) -> StorageWeakRef:
    """Return a weak reference to the storage of a tensor."""
    make: Any = StorageWeakRef
    found: StorageWeakRef = make(tensor.untyped_storage())
    return found


def overlap(slots: Sequence[Slot]) -> bool:
    """Return True if two tensors share memory."""
    ordered = sorted((slot.begin, slot.end) for slot in slots if slot.begin)
    return any(first[1] > second[0] for first, second in pairwise(ordered))


# Of the memory that tensors share: it is freed with the last of them.
_MOST_TOGETHER = 8 * 2**20
ALIGNMENT = 512  # bytes, as of torch's allocations on a GPU


class Recorded:
    """Operations that were recorded of a call, with the slots that each uses.

    The first `inputs` slots are inputs. Operators of torch read or write the slots `as_tensors`;
    others are addresses alone. In the attribute `results`, a new tensor that is nothing else is
    allocated in the result's shape.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        used: Sequence[set[int]],
        inputs: int,
        as_tensors: set[int],
        results: Sequence[View | None],
    ) -> None:
        self._ops, self._as_tensors = ops, as_tensors
        self._last: dict[int, int] = {}  # the op that uses a slot last
        for number, slots in enumerate(used):
            self._last.update((slot, number) for slot in slots if slot >= inputs)
        kept = {view.slot for view in results if view is not None}
        for slot in kept:
            self._last.pop(slot, None)
        # Where a result has the shape of its allocation, or an operator needs it, it stays.
        settled = as_tensors | {view.slot for view in results if view is not None and view.whole}
        self.results = [view and self._shaped(view, settled) for view in results]

    def compact(self) -> list[Op]:
        """Return the operations with fewer allocations, each freed after its last reader."""
        together, size = self._together()
        found: list[Op] = []
        free: dict[int, list[int]] = {}
        for slot, number in self._last.items():
            free.setdefault(number, []).append(slot)
        begun = False
        for number, op in enumerate(self._ops):
            if isinstance(op, Allocate) and op.slot in together:
                if not begun:
                    found.append(AllocateTogether(together, size, op.device))
                begun = True
            else:
                found.append(op)
            if number in free:
                found.append(Free(tuple(free[number])))
        return found

    def _shaped(self, view: View, settled: set[int]) -> View:
        """Return a result, in the shape of its allocation if possible; its slot is then settled."""
        if view.slot in settled:
            return view
        for op in self._ops:
            if isinstance(op, Allocate) and op.slot == view.slot and op.reshape(view):
                settled.add(view.slot)
                return view._replace(whole=True)
        return view

    def _together(self) -> tuple[dict[int, int], int]:
        """Return the first byte of each slot in the memory that they share, and its size."""
        shared = []
        for number, op in enumerate(self._ops):
            alone = isinstance(op, Allocate) and op.slot not in self._as_tensors
            if isinstance(op, Allocate) and alone and op.slot in self._last:
                size = -(-op.nbytes // ALIGNMENT) * ALIGNMENT
                shared.append(_Temporary(op.slot, size, number, self._last[op.slot]))
        shared.sort(key=lambda each: each.size, reverse=True)
        offsets, size = _packed(shared)
        while size > _MOST_TOGETHER:
            shared = shared[1:]
            offsets, size = _packed(shared)
        if len(shared) < 2:
            return {}, 0
        # The memory lives as long as any of them.
        last = max(each.last for each in shared)
        first, *others = offsets
        self._last[first] = last
        for slot in others:
            del self._last[slot]
        return offsets, size


class _Temporary(NamedTuple):
    """A tensor of `size` bytes that is used by its address alone, from one op to another."""

    slot: int
    size: int
    first: int
    last: int


def _packed(tensors: Sequence[_Temporary]) -> tuple[dict[int, int], int]:
    """Return the first byte of each tensor in one piece of memory, and the size of that.

    Tensors come with the largest first; each begins as early as those before allow. Entries run in
    the order of one stream, so memory is free after the last op that uses it. Memory of other
    streams is used by the op that joins them.
    """
    placed: list[tuple[int, _Temporary]] = []
    for tensor in tensors:
        begin = 0
        for taken, other in sorted(placed, key=lambda each: each[0]):
            at_once = tensor.first <= other.last and other.first <= tensor.last
            if at_once and taken < begin + tensor.size and begin < taken + other.size:
                begin = taken + other.size
        placed.append((begin, tensor))
    size = max((begin + tensor.size for begin, tensor in placed), default=0)
    return {tensor.slot: begin for begin, tensor in placed}, size
