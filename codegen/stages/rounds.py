"""The order of exchanges: each as early as what it reads is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...cellspec.expression.node import Node, ordered
from .exchange import Exchanged

Rounds = tuple[tuple[Exchanged, ...], ...]


def in_rounds(
    exchanged: Iterable[Exchanged],
    reads: Callable[[Exchanged], Iterable[Node]],
    sources: Mapping[str, Exchanged],
) -> Rounds:
    """Products and statistics in rounds, each of which is one exchange.

    Args:
        exchanged: each after those that it reads.
        reads: the values that one reads.
        sources: by name, what gives a symbol; other symbols are known from the start.
    """
    round_of: dict[Exchanged, int] = {}
    for each in exchanged:
        before = [round_of[sources[n]] for n in symbol_names(reads(each)) if n in sources]
        round_of[each] = 1 + max(before, default=-1)
    count = 1 + max(round_of.values(), default=-1)
    return tuple(tuple(e for e, own in round_of.items() if own == n) for n in range(count))


def symbol_names(values: Iterable[Node]) -> set[str]:
    """The names of the symbols that values read."""
    return {node.name for node in ordered(values) if node.is_symbol}
