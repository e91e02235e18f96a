"""Calls that came before: found by one comparison of their tensors, and the programs of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call.call import Call
from ..call.plain import guard_of
from ..call.tensors import SomeTensors
from .ops import Allocate, Free, Op, Running, aligned, kind_of_tensor
from .recorder import Parts, Recorder

_MOST = 16

# Gives the handle of the current stream of a device; None where nothing can be replayed on it.
StreamOf = Callable[[torch.device], int | None]
Join = Callable[[Sequence[Op]], Sequence[Op]]
# The shape and dtype of a saved tensor; None where there was none.
SavedKind = tuple[torch.Size, torch.dtype] | None
# Tensors, and None for each that there is not.
Results = list[Any]


class Program:
    """Work of calls of one kind on the device, in order. It holds no tensor but constants."""

    __slots__ = ("_constants", "_empty", "_places", "ops", "results")

    def __init__(self, parts: Parts, inputs: Sequence[Tensor]) -> None:
        self.ops, self.results, self._empty = tuple(parts.ops), tuple(parts.results), parts.empty
        slots = [*enumerate(inputs), *((-1 - n, t) for n, t in enumerate(parts.constants))]
        there = {kind_of_tensor(tensor): slot for slot, tensor in slots[::-1]}
        freed = {slot for op in self.ops if isinstance(op, Free) for slot in op.slots}
        for op in self.ops:
            if isinstance(op, Allocate):
                kind = op.makes
                op.like = there.get(kind)
                if op.slot not in freed:
                    there.setdefault(kind, op.slot)
        constants = parts.constants[::-1]
        self._constants = [*[None] * parts.made, *constants]
        self._places = [*[0] * parts.made, *(tensor.data_ptr() for tensor in constants)]

    def __call__(self, inputs: Sequence[Tensor], stream: int) -> list[Any] | None:
        """Return the results; None if the call has to run as if nothing was recorded.

        Inputs are like those of the recorded call, in sizes, strides, dtype and device.
        """
        addresses = [tensor.data_ptr() for tensor in inputs]
        # Fully sharded modules free memory between calls.
        if not aligned(addresses) or addresses.count(0) != self._empty:
            return None
        running = Running(stream, [*inputs, *self._constants], addresses + self._places)
        try:
            for op in self.ops:
                op(running)
        except BaseException as error:
            running.give_up()
            if running.spent or not isinstance(error, torch.OutOfMemoryError):
                raise
            return None  # another plan may need less
        tensors = running.tensors
        return [None if view is None else view.of(tensors) for view in self.results]


class _Known(NamedTuple):
    """A recorded call: a comparison of tensors with its own, and its program if it has one."""

    alike: Callable[..., bool]
    program: Program | None


_generation = 0


def forget_replays() -> None:
    """Release all replays; the next call of each kind is recorded again."""
    global _generation
    _generation += 1


def generation() -> int:
    """Return a number that changes whenever replays are released."""
    return _generation


class Replays:
    """Replays of calls, by key. Any thread may use it.

    `join` makes one operation of several of a call's. Without `stream_of` no call is recorded.
    """

    def __init__(self, stream_of: StreamOf | None = None, join: Join = tuple) -> None:
        self._stream_of, self._join = stream_of, join
        self._known: dict[Hashable, _Known] = {}
        self._generation = _generation

    def run(
        self,
        key: Hashable,
        tensors: Sequence[Tensor],
        compute: Callable[[], Results],
        *,
        alike: bool = False,
    ) -> Results:
        """Return the results of a call: of its program if it has one, else of the call itself.

        A call with the same key launches the same. No tensor occurs twice in `tensors`, all that
        the call reads. `alike` says that they are known to be like those of all calls of this key.
        """
        if self._stream_of is None:
            return compute()
        stream = self._stream_of(tensors[0].device)
        if stream is None:
            return compute()
        if self._generation != _generation:
            self._known, self._generation = {}, _generation
        key = key, stream, len(tensors)
        known = self._known.get(key)
        if known is None:
            return self._record(key, tensors, compute)
        if known.program is not None and (alike or known.alike(*tensors)):
            found = known.program(tensors, stream)
            if found is not None:
                return found
        return compute()

    def _record(
        self, key: Hashable, tensors: Sequence[Tensor], compute: Callable[[], Results]
    ) -> Results:
        """Run a call, and record it."""
        if len({id(tensor) for tensor in tensors}) < len(tensors):
            return compute()
        with Recorder(tensors) as recorder:
            results = compute()
        parts, program = recorder.parts(results), None
        if parts is not None:
            program = Program(parts._replace(ops=self._join(parts.ops)), tensors)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = _Known(guard_of(tensors), program)
        return results


NEVER = Replays()  # records nothing
_MOST_SAVED = 8  # ways in which saved tensors of one call may be the same


class Entry:
    """Call that passed all checks, besides the values of its tensors.

    Attributes:
        call: what it became.
        forgets_x: whether a backward does not read the first of its tensors.
        options: what the caller had set.
        replays: of calls like it; `NEVER` where none is recorded.
        guard: compares tensors with those of the call; None if no other call has this entry.
        kinds: shape and dtype of each tensor that a backward reads, None for each that there is
            not; None before the first forward.
    """

    __slots__ = ("_saved", "call", "forgets_x", "guard", "kinds", "options", "replays")

    def __init__(
        self,
        call: Call,
        forgets_x: bool = False,
        options: Hashable = None,
        replays: Replays = NEVER,
    ) -> None:
        self.call, self.forgets_x, self.options = call, forgets_x, options
        self.replays = replays
        self.guard: Callable[..., bool] | None = None
        self.kinds: Sequence[SavedKind] | None = None
        self._saved: dict[Hashable, Callable[..., bool]] = {}

    def alike(self, tensors: Sequence[Tensor]) -> bool:
        """Return True if tensors are like those of the call, and have memory now."""
        return self.guard is not None and self.guard(*tensors) and have_memory(tensors)

    def saved_alike(self, tensors: SomeTensors) -> bool:
        """Return True if saved tensors are like some that passed all checks of a backward."""
        pattern, unique = _each_once(tensors)
        check = self._saved.get(pattern)
        return check is not None and check(*unique) and have_memory(unique)

    def remember_saved(self, tensors: SomeTensors) -> None:
        """Remember that saved tensors passed all checks of a backward, if a call may come again."""
        if self.guard is None:
            return
        if len(self._saved) >= _MOST_SAVED:
            self._saved.clear()
        pattern, unique = _each_once(tensors)
        self._saved[pattern] = guard_of(unique)


class Seen:
    """Calls of one caller, by key: entries of those that came again. A copy begins without any."""

    def __init__(self, most: int = 64) -> None:
        self._most, self._generation = most, generation()
        self._entries: dict[Hashable, Entry] = {}
        self._keys: set[Hashable] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def find(self, key: Hashable) -> Entry | None:
        """Return the entry of a key, whose tensors are not compared yet."""
        return self._entries.get(key)

    def again(self, key: Hashable) -> bool:
        """Return True if a call of this key came before: one that never does is worth no entry."""
        if key in self._keys:
            return True
        if len(self._keys) >= self._most:
            self._keys.clear()
        self._keys.add(key)
        return False

    def remember(self, key: Hashable, tensors: Sequence[Tensor], entry: Entry) -> Entry | None:
        """Keep an entry for later calls with tensors like these; None if a tensor occurs twice."""
        if len(set(map(id, tensors))) < len(tensors):
            return None
        # Replays keep constants, also those of modules that are gone.
        if self._generation != generation() or len(self._entries) >= self._most:
            self._entries.clear()
            self._generation = generation()
        entry.guard = guard_of(tensors)
        self._entries[key] = entry
        return entry


def have_memory(tensors: Iterable[Tensor]) -> bool:
    """Return True if all plain tensors have memory; fully sharded modules free it between calls."""
    # A list takes less time than a generator.
    return all([t.data_ptr() or not t.numel() for t in tensors])  # noqa: C419


def _each_once(tensors: SomeTensors) -> tuple[Hashable, list[Tensor]]:
    """Return which tensors are the same, and each of them once; two layers may share a weight."""
    given = [tensor for tensor in tensors if tensor is not None]
    unique = {id(tensor): tensor for tensor in given}
    if len(unique) == len(given):
        return len(given), given
    ids = list(map(id, given))
    return tuple(map(ids.index, ids)), list(unique.values())
