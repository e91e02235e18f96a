"""Smooth activations besides those of `activations`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .choices import where
from .elementary import abs, exp
from .row import row

if TYPE_CHECKING:
    import sympy


softsign = row(
    "softsign(x)",
    "x / (1 + abs(x))",
    cpp="x / (real(1) + abs(x))",
    torch="F.softsign(x)",
    # At an infinity the value is NaN, and so is torch's slope.
    pullback=lambda d, y, x: (where.of(abs.of(y) <= 1, d / (1 + abs.of(x)) ** 2, d * y),),
    free_name=True,
)


def _mish_pullback(d: sympy.Expr, y: sympy.Expr, x: sympy.Expr) -> tuple[sympy.Expr]:
    # tanh(softplus(x)) and its slope as quotients in a = exp(-|x|), which cannot overflow. Torch's
    # 1 - tanh(softplus(x))^2 has no correct digits for large x.
    a = exp.of(-abs.of(x))
    over, under = a**2 + a + 0.5, a**2 / 2 + a + 1
    above = (a + 0.5) / over + x * a**2 * (1 + a) / over**2
    below = a * (1 + a / 2) / under + x * a * (1 + a) / under**2
    return (d * where.of(x > 0, above, below),)


mish = row(
    "mish(x)",
    "x * tanh(softplus(x)) (Misra, 2019)",
    cpp="x * tanh((x < real(0) ? real(0) : x) + rnnc::log1p(exp(-abs(x))))",
    torch="F.mish(x)",
    pullback=_mish_pullback,
    free_name=True,
)
