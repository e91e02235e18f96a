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
        starts, fixed = starts_of(loop), unchanged_of(loop)
        wanted = [place for place, value in enumerate(fixed) if value in active]
        gradients = self._differentiated(loop, wanted)
        sums = [binary("+", running_sum(i), g) for i, g in enumerate(gradients[len(starts) :])]
        self._bodies[loop] = (*gradients[: len(starts)], *sums)
        for place, argument in enumerate((*starts, *(fixed[place] for place in wanted))):
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
        (replaced,) = rewritten([loop], known)
        ends = self._ends[loop]
        cotangents = [
            resolved[ends[i]] if i in ends else number(0) for i in range(len(starts_of(loop)))
        ]
        return unwound(replaced, cotangents, self._bodies[loop])[place]

    def _differentiated(self, loop: Node, wanted: list[int]) -> list[Node]:
        """The gradients of a pass: of the carried values, then of wanted values that stay."""
        from .adjoint import adjoint

        roots = body_of(loop).roots
        names = [carried(place).name for place in range(len(roots))]
        inputs = [*names, *(unchanged(place).name for place in wanted)]
        found = adjoint(dict(zip(names, roots, strict=True)), inputs, known_values(roots))
        self.origins |= found.origins
        return list(found.gradients.values())
