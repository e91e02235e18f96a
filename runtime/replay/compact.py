"""A recorded call with fewer allocations, each freed after its last reader."""

from __future__ import annotations

from collections.abc import Sequence

from .entries import Allocate, AllocateTogether, Entry, Free, View

# Of all tensors that are allocated together: they are freed together too.
_MOST_TOGETHER = 2**20


class Recorded:
    """What was recorded of a call.

    Args:
        entries: the operations, in their order.
        used: the slots of each.
        inputs: how many slots are inputs.
        as_tensors: the slots that operators of torch read or write; others are addresses alone.
        results: of the call.

    Attributes:
        results: of the call; where a new tensor is nothing else, it is allocated in that shape.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        used: Sequence[set[int]],
        inputs: int,
        as_tensors: set[int],
        results: Sequence[View | None],
    ) -> None:
        self._entries, self._as_tensors = entries, as_tensors
        self._last: dict[int, int] = {}  # the entry that uses a slot last
        for number, slots in enumerate(used):
            self._last.update((slot, number) for slot in slots if slot >= inputs)
        kept = {view.slot for view in results if view is not None}
        for slot in kept:
            self._last.pop(slot, None)
        # Where a result has the shape of its allocation, or an operator needs it, it stays.
        settled = as_tensors | {view.slot for view in results if view is not None and view.whole}
        self.results = [view and self._shaped(view, settled) for view in results]

    def compact(self) -> list[Entry]:
        """The operations."""
        together = self._together()
        found: list[Entry] = []
        free: dict[int, list[int]] = {}
        for slot, number in self._last.items():
            free.setdefault(number, []).append(slot)
        begun = False
        for number, entry in enumerate(self._entries):
            if isinstance(entry, Allocate) and entry.slot in together:
                if not begun:
                    found.append(AllocateTogether(together, entry.device))
                begun = True
            else:
                found.append(entry)
            if number in free:
                found.append(Free(tuple(free[number])))
        return found

    def _shaped(self, view: View, settled: set[int]) -> View:
        """A result, which its allocation gives as it is, if that is possible.

        Args:
            view: the result.
            settled: the slots whose shape stays; that of the result becomes one.
        """
        if view.slot in settled:
            return view
        for entry in self._entries:
            if isinstance(entry, Allocate) and entry.slot == view.slot and entry.reshape(view):
                settled.add(view.slot)
                return view._replace(whole=True)
        return view

    def _together(self) -> dict[int, int]:
        """The bytes of each slot of those that are allocated together."""
        sizes: dict[int, int] = {}
        for entry in self._entries:
            alone = isinstance(entry, Allocate) and entry.slot not in self._as_tensors
            if isinstance(entry, Allocate) and alone and entry.slot in self._last:
                sizes[entry.slot] = entry.nbytes
        if len(sizes) < 2 or sum(sizes.values()) > _MOST_TOGETHER:
            return {}
        # The memory lives as long as any of them.
        last = max(self._last[slot] for slot in sizes)
        first, *others = sizes
        self._last[first] = last
        for slot in others:
            del self._last[slot]
        return sizes
