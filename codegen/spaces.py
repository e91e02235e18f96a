"""Index spaces of a cell, so that an index of one space cannot be used in another.

A cell numbers its gates, gates with an input, biases, matrices, states and more. A plain integer
would fit all of them, so each space has its own index type. A `Space` maps names to indices. A
`Table` accepts only indices of its space: any other index is an error for the type checker and at
run time. `.number` gives the plain integer, for text and for addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(frozen=True)
class Index:
    """A place in a space; the type of the index names the space."""

    number: int


class GateIndex(Index):
    """Index of a gate in the kernels' order: gates with an input first."""


class InputIndex(Index):
    """Index of a gate with an input: the last axis of `wx` and `d_wx`."""


class GradientIndex(Index):
    """Index of a gate, or of a cell's Input, of which the backward gives the gradient."""


class RestIndex(Index):
    """Index of such a gate without an x, or of an Input: the last axis of `d_gates_no_input`."""


class UnweightedIndex(Index):
    """Index of one of the cell's inputs, which no weight multiplies."""


class BiasIndex(Index):
    """Index of a bias: the first axis of `b`."""


class DenseIndex(Index):
    """Index of a dense pair (gate, source): the first axis of `R`."""


class DiagonalIndex(Index):
    """Index of a diagonal pair (gate, source): the first axis of `R_diag`."""


class PairIndex(Index):
    """Index of a dense pair in the order of products: by source, then by gate."""


class SourceIndex(Index):
    """Index of a state that a dense pair reads."""


class StateIndex(Index):
    """Index of a state, in the cell's order."""


class ParamIndex(Index):
    """Index of a param, in the cell's order."""


I = TypeVar("I", bound=Index)  # noqa: E741
J = TypeVar("J", bound=Index)
V = TypeVar("V")


@dataclass(frozen=True)
class Space(Generic[I]):
    """A space: the names of its places, in order.

    Attributes:
        kind: the type of its indices.
        names: the names, all different.

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
        space: the space of its indices.
        values: the values, in the order of the space.

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
    """Indices as plain integers."""
    return [i.number for i in indices]
