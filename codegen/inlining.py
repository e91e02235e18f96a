"""Definitions that are used once, written where they are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import sympy

#: Sums and products of more parts keep a name, so the cost is linear in the length of a chain.
_LARGEST_INLINED = 6
#: Definitions that are nested more deeply keep a name, because sympy recurses.
_DEEPEST_INLINED = 30


def inlined(
    definitions: dict[sympy.Symbol, sympy.Expr], kept: set[sympy.Symbol]
) -> dict[sympy.Symbol, sympy.Expr]:
    """The definitions, with each one that is used only once inlined into its user.

    A product of products becomes one product, whose parts can be shared in any order.

    Args:
        definitions: the value of each symbol, in an order in which they can be computed.
        kept: symbols that stay.
    """
    uses = Counter(s for body in definitions.values() for s in _symbols(body))
    once: dict[sympy.Symbol, sympy.Expr] = {}
    rest: dict[sympy.Symbol, sympy.Expr] = {}
    depths: dict[sympy.Symbol, int] = {}
    for target, definition in definitions.items():
        inside = [s for s in definition.free_symbols if s in once]
        body = definition.xreplace({s: once[s] for s in inside})
        depths[target] = 1 + max((depths[s] for s in inside), default=0)
        small = len(body.args) <= _LARGEST_INLINED and depths[target] <= _DEEPEST_INLINED
        (once if uses[target] == 1 and small and target not in kept else rest)[target] = body
    return rest


def _symbols(value: sympy.Expr) -> Iterator[sympy.Symbol]:
    return (node for node in sympy.preorder_traversal(value) if node.is_Symbol)
