"""Functions of two numbers: powers, angles, and values between two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..expression.powers import raised
from .choices import maximum, minimum, where
from .elementary import abs, log, reciprocal, square
from .gradients import stop_gradient
from .row import row

if TYPE_CHECKING:
    import sympy


#: A number that is infinite in float, and beyond all but the largest in double.
_INFINITE = 1e308


def _but_zero(condition: sympy.Basic, value: sympy.Expr) -> sympy.Expr:
    """The value, and 0 where a condition holds; the condition may be known."""
    known = condition.is_Boolean and condition.is_Atom
    return (0 if condition else value) if known else where.of(condition, 0, value)


def _pow_pullback(
    d: sympy.Expr, y: sympy.Expr, a: sympy.Expr, b: sympy.Expr
) -> tuple[sympy.Expr, sympy.Expr]:
    import sympy

    # As in torch: an exponent 0 has no slope in the base, and a base 0 none in the exponent.
    return (
        _but_zero(sympy.Eq(b, 0), d * b * pow.of(a, b - 1)),
        _but_zero(sympy.Eq(a, 0) & (b >= 0), d * y * log.of(a)),
    )


pow = row(
    "pow(a, b)",
    "a to the power b: a ** b",
    pullback=_pow_pullback,
    written=raised,
    free_name=True,
)


def _atan2_pullback(
    d: sympy.Expr, y: sympy.Expr, a: sympy.Expr, b: sympy.Expr
) -> tuple[sympy.Expr, sympy.Expr]:
    # b / (a^2 + b^2), where the squares may overflow and underflow: with r = 1 / max(|a|, |b|), b r
    # and then b r r. stop_gradient keeps products apart, because sympy would form r^2.
    apart = stop_gradient.of
    r = reciprocal.of(maximum.of(abs.of(a), abs.of(b)))
    squares = 1 + square.of(minimum.of(abs.of(a), abs.of(b)) * r)
    up, right = apart(apart(a * r) * r), apart(apart(b * r) * r)
    # Near the origin r is infinite, in float as in double.
    origin = r >= _INFINITE
    return where.of(origin, 0, d * right / squares), where.of(origin, 0, -d * up / squares)


atan2 = row(
    "atan2(a, b)",
    "the angle of the point (b, a), in radians from -pi to pi; no gradient passes at (0, 0)",
    pullback=_atan2_pullback,
    free_name=True,
)
lerp = row(
    "lerp(a, b, weight)",
    "a + weight * (b - a)",
    # As in torch: from the nearer end, so that weight 1 gives exactly b.
    cpp="weight > real(-0.5) && weight < real(0.5) ? a + weight * (b - a)"
    " : b - (b - a) * (real(1) - weight)",
    pullback=lambda d, y, a, b, weight: (d * (1 - weight), d * weight, d * (b - a)),
    free_name=True,
)
