"""The adjoint of loops: the passes of a loop run backwards."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import sympy

from ..cellspec.expression.graph import rewritten
from ..cellspec.expression.loops import (
    body_of,
    carried,
    running_sum,
    starts_of,
    unchanged,
    unchanged_of,
    unwound,
)
from ..cellspec.expression.node import Node, binary, number
from .gradient_only import known_values
from .origins import Origins


class Unwound:
    """The loops that reverse mode passes through.

    sympy sees a symbol for each gradient that comes out of a loop. It becomes a node when the
    cotangents of the loop's results are nodes.

    Attributes:
        cotangents: the symbols of the cotangents of results.
        origins: the terms of the equations that nodes of the bodies came from.
    """

    def __init__(self) -> None:
        self.cotangents: set[sympy.Symbol] = set()
        self.origins: dict[Node, tuple[Node, ...]] = {}
        self._ends: dict[Node, dict[int, sympy.Symbol]] = {}
        self._results: dict[sympy.Symbol, tuple[Node, int]] = {}
        self._bodies: dict[Node, tuple[Node, ...]] = {}
        self._unwound: dict[Node, tuple[Node, ...]] = {}

    def __contains__(self, gradient: sympy.Symbol) -> bool:
        return gradient in self._results

    def add(self, result: Node, cotangent: sympy.Symbol) -> None:
        """The cotangent of a loop's result."""
        assert isinstance(result.value, int)
        self._ends.setdefault(result.args[0], {})[result.value] = cotangent
        self.cotangents.add(cotangent)

    def pulled_back(
        self, loop: Node, active: Collection[Node]
    ) -> Iterator[tuple[Node, sympy.Symbol]]:
        """The active arguments of a loop whose results have been added, each with its gradient."""
        if loop not in self._ends:
            return
        arguments, self._bodies[loop], origins = pulled_back_body(loop, active)
        self.origins |= origins
        for place, argument in enumerate(arguments):
            if argument in active:
                gradient = sympy.Symbol(f"_r{len(self._results):05}")
                self._results[gradient] = loop, place
                yield argument, gradient

    def read_by(self, gradient: sympy.Symbol) -> Collection[sympy.Symbol]:
        """The cotangents that a gradient is computed from."""
        loop, _ = self._results[gradient]
        return self._ends[loop].values()

    def node(
        self,
        gradient: sympy.Symbol,
        known: Mapping[Node, Node],
        resolved: Mapping[sympy.Symbol, Node],
    ) -> Node:
        """The node of a gradient.

        Args:
            gradient: its symbol.
            known: replacements for nodes that are already computed.
            resolved: the nodes of the cotangents.
        """
        loop, place = self._results[gradient]
        if loop not in self._unwound:
            (replaced,) = rewritten([loop], known)
            ends = self._ends[loop]
            places = range(len(starts_of(loop)))
            cotangents = [resolved[ends[i]] if i in ends else number(0) for i in places]
            self._unwound[loop] = unwound(replaced, cotangents, self._bodies[loop])
        return self._unwound[loop][place]


def pulled_back_body(
    loop: Node, active: Collection[Node]
) -> tuple[tuple[Node, ...], tuple[Node, ...], Origins]:
    """The body of the loop that runs another one backwards.

    Args:
        loop: a `"repeat"` node.
        active: the nodes that can have a gradient.

    Returns:
        The arguments of the loop whose gradients are its results; the roots of its body; and the
        terms of the equations that nodes of the body came from.
    """
    from .reverse_mode import reverse_mode

    roots, fixed = body_of(loop).roots, unchanged_of(loop)
    wanted = [place for place, value in enumerate(fixed) if value in active]
    names = [carried(place).name for place in range(len(roots))]
    inputs = [*names, *(unchanged(place).name for place in wanted)]
    results = dict(zip(names, roots, strict=True))
    found = reverse_mode(results, inputs, known_values(roots))
    gradients = list(found.gradients.values())
    sums = [binary("+", running_sum(i), g) for i, g in enumerate(gradients[len(roots) :])]
    arguments = (*starts_of(loop), *(fixed[place] for place in wanted))
    return arguments, (*gradients[: len(roots)], *sums), found.origins
