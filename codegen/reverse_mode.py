"""Reverse mode, in the way that suits the length of what is differentiated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cellspec.expression.node import Node, ordered
from .adjoint import Adjoint, adjoint
from .long_adjoint import long_adjoint

#: The most nodes whose adjoint sympy rearranges as a whole, which takes more than linear time.
_LONGEST_SEARCHED = 1000


def reverse_mode(
    results: Mapping[str, Node], wanted: Iterable[str], known: Mapping[Node, Node]
) -> Adjoint:
    """Cotangents of symbols from cotangents of results; the arguments are those of `adjoint`."""
    long = len(ordered(results.values())) > _LONGEST_SEARCHED
    return (long_adjoint if long else adjoint)(results, wanted, known)
