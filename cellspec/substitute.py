"""Names for values that stand inside others."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from .tracer import factored


def substitute(value: sympy.Expr, known: Mapping[sympy.Expr, sympy.Symbol]) -> sympy.Expr:
    """The expression with each known subexpression replaced by its name.

    Args:
        value: any expression.
        known: names by subexpression; the largest go first, since one may contain another.

    Example:
        >>> from rnnc.cellspec.substitute import substitute
        >>> from rnnc.cellspec.text import from_text
        >>> substitute(from_text("tanh(c*f + i)"), {from_text("c*f + i"): from_text("c_next")})
        tanh(c_next)
    """
    with factored():
        for part in sorted(known, key=sympy.count_ops, reverse=True):
            value = value.xreplace({part: known[part]})
    return value
