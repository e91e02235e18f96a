"""Choices between values: the larger, the smaller, one within bounds, one by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..elementwise import ElementwiseFunction
from .row import row

if TYPE_CHECKING:
    import sympy

# A row that pullbacks of earlier rows use.
where: ElementwiseFunction


def _extremum_pullback(
    d: sympy.Expr,
    a: sympy.Expr,
    b: sympy.Expr,
    first_loses: sympy.Basic,
    second_loses: sympy.Basic,
) -> tuple[sympy.Expr, sympy.Expr]:
    import sympy

    # As in torch: at a tie each side gets half, at a NaN each side gets all.
    kept = where.of(sympy.Eq(a, b), d / 2, d)
    return where.of(first_loses, 0, kept), where.of(second_loses, 0, kept)


maximum = row(
    "maximum(a, b)",
    "the larger of two; at a tie each gets half the gradient",
    cpp="(a > b || a != a) ? a : b",
    pullback=lambda d, y, a, b: _extremum_pullback(d, a, b, a < b, b < a),
    latex=r"\max",
)
minimum = row(
    "minimum(a, b)",
    "the smaller of two; at a tie each gets half the gradient",
    cpp="(a < b || a != a) ? a : b",
    pullback=lambda d, y, a, b: _extremum_pullback(d, a, b, a > b, b > a),
    latex=r"\min",
)
clip = row(
    "clip(x, low, high)",
    "x held between low and high; the gradient passes where it is not held",
    cpp="x < low ? low : (x > high ? high : x)",
    torch="torch.where((x >= low) & (x <= high), x,"
    " torch.where(x < low, low, torch.where(x > high, high, x.detach())))",
    pullback=lambda d, y, x, low, high: (
        where.of((x >= low) & (x <= high), d, 0),
        where.of(x < low, d, 0),
        where.of((x > high) & (x >= low), d, 0),
    ),
)
where = row(
    "where(condition, a, b)",
    "a where the condition holds, else b",
    cpp="condition ? a : b",
    pullback=lambda d, y, condition, a, b: (
        None,
        where.of(condition, d, 0),
        where.of(condition, 0, d),
    ),
)
