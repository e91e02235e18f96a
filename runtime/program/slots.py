"""Tensors of a call that is recorded, by their memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


class Slot:
    """Memory of a tensor, or of its storage if `own`; neither is kept, so it is freed as usual."""

    def __init__(self, tensor: Tensor, begin: int, own: bool) -> None:
        """Make it from a tensor, whose first element is at the address `begin`."""
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
