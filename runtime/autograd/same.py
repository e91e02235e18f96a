"""Whether the tensors of a backward are those of an earlier one: then no check need be repeated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

# By the key of a call, the number of tensors, and, if some are the same tensor, the first place of
# each: whether tensors have the types, dtypes, devices, sizes and strides of some that passed all
# checks. One call of C compares them; it holds no tensor, and takes no tensor twice.
_SEEN: dict[Hashable, Callable[..., bool]] = {}
_MOST_ENTRIES = 1024


class Likeness:
    """What tensors are, besides their values.

    Args:
        key: of the call, which says what its tensors should be.
        tensors: of a backward.
    """

    __slots__ = ("_key", "_tensors", "_unique")

    def __init__(self, key: Hashable, tensors: Sequence[Tensor | None]) -> None:
        given = self._tensors = [t for t in tensors if t is not None]
        unique = {id(t): t for t in given}
        equal: tuple[int, ...] = ()
        if len(unique) < len(given):  # two layers may share a weight
            ids = list(map(id, given))
            equal, given = tuple(map(ids.index, ids)), list(unique.values())
        self._key, self._unique = (key, len(given), equal), given

    def seen(self) -> bool:
        """Whether such tensors passed all checks before, and have memory now."""
        same = _SEEN.get(self._key)
        return same is not None and same(*self._unique) and _have_memory(self._unique)

    def remember(self) -> None:
        """Such tensors have passed all checks."""
        if len(_SEEN) >= _MOST_ENTRIES:
            _SEEN.clear()
        guards = TensorGuards(*self._unique, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        _SEEN[self._key] = guards.check


def _have_memory(tensors: Iterable[Tensor]) -> bool:
    """Whether all tensors have memory; fully sharded modules free it between calls."""
    return all(tensor.data_ptr() or not tensor.numel() for tensor in tensors)
