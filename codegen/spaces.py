"""Index spaces of a cell: a place in one can not be taken for a place in another.

A cell numbers its gates, the gates with input, biases, matrices, states and more, and a bare
integer would fit all of them. Here each space has an index type of its own. A `Space` gives indices
by name, a `Table` takes those of its space alone: another is an error for the type checker and at
run time. A bare number leaves only where text or memory is addressed, by `.number`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(frozen=True)
class Index:
    """A place in a space; its type says in which."""

    number: int


class GateIndex(Index):
    """Of all gates in the kernels' order: those with input first."""


class InputIndex(Index):
    """Of the gates with input: the last axis of `wx` and `d_wx`."""


class RestIndex(Index):
    """Of the gates without input: the last axis of `d_rest`."""


class BiasIndex(Index):
    """Of the gates with a bias: the first axis of `b`."""


class DenseIndex(Index):
    """Of the dense pairs (gate, source): the first axis of `R`."""


class DiagonalIndex(Index):
    """Of the diagonal pairs (gate, source): the first axis of `R_diag`."""


class PairIndex(Index):
    """Of the dense pairs in the order of products: by source, then by the gate's name."""


class SourceIndex(Index):
    """Of the states that some dense pair reads."""


class StateIndex(Index):
    """Of the states in the cell's order."""


class ParamIndex(Index):
    """Of the params in the cell's order."""


I = TypeVar("I", bound=Index)  # noqa: E741
J = TypeVar("J", bound=Index)
V = TypeVar("V")


@dataclass(frozen=True)
class Space(Generic[I]):
    """The names of a space in its order.

    Attributes:
        kind: the type of its indices.
        names: of its places; no two are the same.

    Example:
        >>> from rnnc.codegen.spaces import Space, StateIndex
        >>> states = Space(StateIndex, ("h", "c"))
        >>> states.at("c"), states[StateIndex(0)]
        (StateIndex(number=1), 'h')
    """

    kind: type[I]
    names: tuple[str, ...]

    def at(self, name: str) -> I:
        """The index of a name.

        Raises:
            ValueError: the space has no such name.
        """
        return self.kind(self.names.index(name))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, index: I) -> str:
        return self.names[_checked(self.kind, index)]

    def __iter__(self) -> Iterator[I]:
        return map(self.kind, range(len(self.names)))

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Table(Generic[I, V]):
    """A value for each place of a space.

    Attributes:
        space: what it is indexed by.
        values: in the order of the space.

    Example:
        >>> from rnnc.codegen.spaces import ParamIndex, Space, StateIndex, Table
        >>> reads = Table(Space(StateIndex, ("h", "c")), (True, False))
        >>> reads[StateIndex(1)], list(reads)
        (False, [True, False])
        >>> reads[ParamIndex(1)]
        Traceback (most recent call last):
        TypeError: a ParamIndex where a StateIndex belongs
    """

    space: Space[I]
    values: tuple[V, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.space):
            raise ValueError(f"{len(self.values)} values for {len(self.space)} places")

    def __getitem__(self, index: I) -> V:
        return self.values[_checked(self.space.kind, index)]

    def __iter__(self) -> Iterator[V]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def items(self) -> Iterator[tuple[I, V]]:
        """Each index with its value."""
        return zip(self.space, self.values, strict=True)


def _checked(kind: type[Index], index: Index) -> int:
    if type(index) is not kind:
        raise TypeError(f"a {type(index).__name__} where a {kind.__name__} belongs")
    return index.number


def numbers(indices: Iterable[Index]) -> list[int]:
    """The bare numbers, for text and memory."""
    return [i.number for i in indices]
