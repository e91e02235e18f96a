"""Draws cells without recurrent matrices: states in parts that a scan over time could compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from .cell import with_all
from .grammar import Grammar
from .tree import CellDraw, GateDraw, Node, call, name, number

_Body = list[tuple[str, Node]]


def without_matrices(
    random: Random, cell: CellDraw, apart: bool, half: bool, affine: bool
) -> CellDraw:
    """The cell with the same declarations, no matrices, and another body.

    Each of its states, or each pair of them, reads itself in a drawn way: in a sum, in a maximum,
    by any function, or not at all.

    Args:
        random: the source of all choices.
        cell: without loops.
        apart: as in `with_loops`.
        half: likewise; then no state is in a maximum, which rounding would decide.
        affine: whether each state that reads itself is in a sum, as a scan plan wants it, or the
            first one in a maximum.
    """
    # In a scan a diagonal weight reads a state of the part that takes its gate.
    keeps = random.random() < 0.3 and not (affine and len(cell.states) > 1)
    gates = tuple(_without_matrix(gate, keeps) for gate in cell.gates)
    cell = replace(cell, gates=gates)
    own = {gate.name for gate in gates if gate.recurrent}
    free = [d.name for d in cell.declared if d not in cell.states and d.name not in own]
    if not free:  # nothing to draw coefficients from
        return replace(cell, body=_sums([s.name for s in cell.states], sorted(own)))
    switches = [d.name for d in cell.declared if d.switch]
    parts = _Parts(random, Grammar(random, free, switches, apart, half), sorted(own), affine)
    states = [s.name for s in cell.states]
    random.shuffle(states)
    while states:
        count = 2 if len(states) > 1 and random.random() < 0.4 else 1
        parts.add(states[:count], half)
        del states[:count]
    declared = [d.name for d in cell.declared if d not in cell.states]
    return replace(cell, body=with_all(random, parts.body, [], declared))


def _without_matrix(gate: GateDraw, keeps_diagonal: bool) -> GateDraw:
    if gate.recurrent == "diagonal" and keeps_diagonal:
        return gate
    return replace(gate, input=True, recurrent=False, source=())


def _sums(states: Sequence[str], gates: Sequence[str]) -> tuple[tuple[str, Node], ...]:
    """Updates of a cell that has gates with diagonal weights alone, or nothing."""
    updates = []
    for place, state in enumerate(states):
        update = call("*", number(0.5 - place / 16), name(state))
        for gate in gates:
            update = call("+", update, call("*", number(0.25), name(gate)))
        updates.append((f"new_{state}", update))
    return tuple(updates)


class _Parts:
    """The body of a cell, part by part; each may read the parts before it.

    Args:
        random: the source of all choices.
        free: draws what no state of the next part enters.
        gates: with diagonal weights, which the next sum takes.
        affine: as in `without_matrices`.
    """

    def __init__(self, random: Random, free: Grammar, gates: Sequence[str], affine: bool) -> None:
        self.body: _Body = []
        self._random, self._free, self._gates = random, free, list(gates)
        self._affine = affine

    def add(self, states: Sequence[str], half: bool) -> None:
        """Add a part of one state or two."""
        if len(states) == 2:
            updates = self._random.choice([self._turned, self._mixed])(*states)
        else:
            ways = [self._sum, self._sum, self._output]
            if not self._affine:
                ways += [self._any, self._sum if half else self._maximum]
            elif not (half or self.body or self._gates):
                ways.append(self._maximum)  # of a scan it sees no other state
            updates = [self._random.choice(ways)(states[0])]
        known = {value for _, value in self.body}
        for state, update in zip(states, updates, strict=True):
            if update in known:
                update = call("+", update, call("*", number(0.25), self._free.bounded(1)))
            self.body.append((f"new_{state}", self._with_gates(update)))
        read = [f"new_{state}" for state in states]  # a scan has no old value of another part
        self._free.leaves += read if self._affine else [*states, *read]

    def _with_gates(self, update: Node) -> Node:
        """The update with the gates that have diagonal weights; no product may read them."""
        for gate in self._gates:
            update = call("+", update, call("*", number(0.25), name(gate)))
        self._gates = []
        return update

    def _depth(self) -> int:
        return self._random.choice([1, 1, 2, 3])

    def _sum(self, state: str) -> Node:
        own, offset = name(state), self._free.bounded(self._depth())
        kept = call("*", self._free.bounded(self._depth()), own)
        share = call("sigmoid", self._free.expression(1))
        forms: list[Callable[[], Node]] = [
            lambda: call("+", kept, offset),
            lambda: call("-", offset, kept),
            lambda: call(
                "+", call("*", share, own), call("*", call("-", number(1), share), offset)
            ),
            lambda: call("+", call("/", own, call("+", self._free.positive(1), number(1))), offset),
            lambda: call("where", self._free.condition(1), kept, offset),
            lambda: call("+", call("stop_gradient", kept), offset),
        ]
        return self._random.choice(forms)()

    def _maximum(self, state: str) -> Node:
        shifted = call("+", name(state), self._free.bounded(self._depth()))
        pair = [shifted, self._free.expression(self._depth())]
        self._random.shuffle(pair)
        return call("maximum", *pair)

    def _any(self, state: str) -> Node:
        """A function of a state, one at least that is none of a sum."""
        inner = call("*", self._free.bounded(1), name(state))
        return call("tanh", call("+", inner, self._free.expression(self._depth())))

    def _output(self, _: str) -> Node:
        return self._free.bounded(self._depth())

    def _turned(self, first: str, second: str) -> list[Node]:
        """A complex number, turned and shrunk."""
        angle, size = self._free.expression(1), self._free.bounded(1)
        x, y = name(first), name(second)
        cos, sin = call("*", size, call("cos", angle)), call("*", size, call("sin", angle))
        turned = [
            call("-", call("*", cos, x), call("*", sin, y)),
            call("+", call("*", sin, x), call("*", cos, y)),
        ]
        return [call("+", value, self._free.bounded(self._depth())) for value in turned]

    def _mixed(self, first: str, second: str) -> list[Node]:
        """Two sums of both states."""

        def share(state: str) -> Node:
            return call("*", call("*", number(0.45), self._free.bounded(1)), name(state))

        return [
            call("+", call("+", share(first), share(second)), self._free.bounded(self._depth()))
            for _ in range(2)
        ]
