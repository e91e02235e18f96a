"""Which states a value depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..expression.graph import with_args
from ..expression.node import Node, ordered, symbol
from ..functions.nodes import value_args

if TYPE_CHECKING:
    from ..cell import CellSpec
    from ..pairs import Pair

States = frozenset[str]
NO_STATES: States = frozenset()
#: The most states of a unit whose matrices a scan multiplies.
MOST_COUPLED = 4


def symbols_that_see(cell: CellSpec) -> dict[Node, States]:
    """The states by symbol that depends on them: the states, and gates with diagonal weights."""
    seen = {symbol(state.name): frozenset({state.name}) for state in cell.states}
    for pair in fed_by_states(cell):
        gate = symbol(pair.gate)
        seen[gate] = seen.get(gate, NO_STATES) | {pair.source}
    return seen


def fed_by_states(cell: CellSpec) -> list[Pair]:
    """The diagonal weights that multiply a state, and not the argument of a called gate."""
    return [pair for pair in cell.diagonal_pairs if pair.gate not in cell.called]


def unit_updates(cell: CellSpec) -> tuple[Node, ...]:
    """The new values with each call of a gate of diagonal weights as the sum `n + u_n * y`.

    In it the symbol `n` is the gate's input and bias.
    """
    diagonal = {pair.gate for pair in cell.diagonal_pairs}
    new: dict[Node, Node] = {}
    for node in ordered(cell.updates):
        args = tuple(new[a] for a in node.args)
        if node.op == "gate" and node.name in diagonal:
            new[node] = symbol(node.name) + symbol(f"u_{node.name}") * args[0]
        else:
            new[node] = with_args(node, args)
    return tuple(new[update] for update in cell.updates)


def states_seen(roots: Iterable[Node], symbols: Mapping[Node, States]) -> dict[Node, States]:
    """The states that the value of each node below the roots depends on.

    Args:
        roots: where to start.
        symbols: the states that symbols depend on.
    """
    seen: dict[Node, States] = {}
    for node in ordered(roots):
        own = symbols.get(node, NO_STATES)
        seen[node] = own.union(*(seen[a] for a in value_args(node)))
    return seen


def coupled(reads: Mapping[str, States]) -> tuple[tuple[str, ...], ...]:
    """Split states into those that depend on each other over time, in an order of dependence.

    Args:
        reads: for each state, the states whose old values its new value depends on.

    Returns:
        The groups: each depends on itself and on groups before it.
    """
    reached = {state: set(sources) for state, sources in reads.items()}
    for middle in reads:  # Warshall's transitive closure
        for sources in reached.values():
            if middle in sources:
                sources |= reached[middle]
    groups: dict[tuple[str, ...], None] = {}
    for state in reads:
        mutual = [s for s in reads if s == state or (s in reached[state] and state in reached[s])]
        groups[tuple(mutual)] = None
    # A group depends on more states than each that it depends on.
    return tuple(sorted(groups, key=lambda group: len(reached[group[0]].union(group))))
