"""Circular and hyperbolic functions, and exponentials and logarithms of other bases.

Their values are those of the mathematics library of each target.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..elementwise import ElementwiseFunction
from .choices import maximum, minimum
from .elementary import abs, exp, rsqrt
from .row import row

if TYPE_CHECKING:
    import sympy

# A row that the pullback of an earlier row uses.
cosh: ElementwiseFunction

tan = row(
    "tan(x)",
    "the tangent of x radians",
    pullback=lambda d, y, x: (d * (1 + y**2),),
    latex=r"\tan",
    free_name=True,
)
atan = row(
    "atan(x)",
    "the angle whose tangent is x, in radians",
    pullback=lambda d, y, x: (d / (1 + x**2),),
    latex=r"\arctan",
    free_name=True,
)
sinh = row(
    "sinh(x)",
    "the hyperbolic sine",
    pullback=lambda d, y, x: (d * cosh.of(x),),
    latex=r"\sinh",
    free_name=True,
)
cosh = row(
    "cosh(x)",
    "the hyperbolic cosine",
    pullback=lambda d, y, x: (d * sinh.of(x),),
    latex=r"\cosh",
    free_name=True,
)


def _asinh_pullback(d: sympy.Expr, y: sympy.Expr, x: sympy.Expr) -> tuple[sympy.Expr]:
    # 1 / sqrt(1 + x^2), where x^2 may overflow: with m = max(|x|, 1) the root is m times one of
    # numbers up to 1.
    m, n = maximum.of(abs.of(x), 1), minimum.of(abs.of(x), 1)
    return (d / m * rsqrt.of(m**-2 + n**2),)


asinh = row(
    "asinh(x)",
    "the inverse of the hyperbolic sine",
    pullback=_asinh_pullback,
    latex=r"\operatorname{arsinh}",
    free_name=True,
)
log1p = row(
    "log1p(x)",
    "log(1 + x), exact for small x",
    pullback=lambda d, y, x: (d / (1 + x),),
    domain=(-1.0, math.inf),
    free_name=True,
)
expm1 = row(
    "expm1(x)",
    "exp(x) - 1, exact for small x",
    # Not y + 1, which has no correct digits when y is close to -1.
    pullback=lambda d, y, x: (d * exp.of(x),),
    free_name=True,
)
log2 = row(
    "log2(x)",
    "the logarithm to base 2",
    pullback=lambda d, y, x: (d / math.log(2) / x,),
    domain=(0.0, math.inf),
    free_name=True,
)
exp2 = row(
    "exp2(x)",
    "2 to the power x",
    pullback=lambda d, y, x: (d * y * math.log(2),),
    free_name=True,
)
