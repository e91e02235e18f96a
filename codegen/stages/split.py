"""Values in stages: which stage computes each, and what a stage leaves for later ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from ...cellspec.expression.body import Body
from ...cellspec.expression.graph import rewritten
from ...cellspec.expression.node import Node, ordered, symbol


@dataclass(frozen=True)
class Split:
    """Results of stages, written with what earlier stages left.

    Attributes:
        results: for each stage, the values that it computes, by name.
        known: for each stage, the values that it reads by a name.
        left: the names of the values that stages leave for later ones, besides results.
    """

    results: tuple[Mapping[str, Node], ...]
    known: tuple[Mapping[Node, Node], ...]
    left: tuple[str, ...]


def split(
    stages: Sequence[Mapping[str, Node]], stored: Iterable[str], taken: Iterable[str]
) -> Split:
    """Divide the computation of results among stages.

    A value that an earlier stage has computed is not computed again.

    Args:
        stages: the results of each stage.
        stored: the names of results that later stages can read.
        taken: names that nothing else may have.
    """
    first: dict[Node, int] = {}  # the stage that computes a value
    readable, names = {*stored}, dict[Node, str]()
    free = _free_names({*taken, *(name for each in stages for name in each)})
    known: list[dict[Node, Node]] = []
    left: dict[Node, str] = {}
    for place, results in enumerate(stages):
        own: dict[Node, Node] = {}
        for node in ordered(results.values(), stop=first):
            if node not in first:
                if _can_be_left(node):
                    first[node] = place
            elif first[node] < place:
                if node not in names:
                    names[node] = left[node] = next(free)
                own[node] = symbol(names[node])
        known.append(own)
        # A result that is part of an earlier stage gets its name too late: that stage leaves it.
        for name, node in results.items():
            if name in readable and first.get(node) == place:
                names[node] = name
    found = []
    for place, results in enumerate(stages):
        more = {name: node for node, name in left.items() if first[node] == place}
        every = {**results, **more}
        found.append(dict(zip(every, rewritten(every.values(), known[place]), strict=True)))
    return Split(tuple(found), tuple(known), tuple(left.values()))


def _can_be_left(node: Node) -> bool:
    """Return True if a node is a number of a unit that takes an operation."""
    return not node.is_leaf and not node.is_condition and not isinstance(node.value, Body)


def _free_names(taken: set[str]) -> Iterator[str]:
    return (name for name in map("left{}".format, count()) if name not in taken)
