"""Exponential, logarithm, roots, circular functions and the error function."""

from __future__ import annotations

import math

from ..elementwise import ElementwiseFunction
from .row import row

# Rows that pullbacks of earlier rows use.
sign: ElementwiseFunction
cos: ElementwiseFunction

exp = row(
    "exp(x)",
    "the exponential function",
    pullback=lambda d, y, x: (d * y,),
    latex=r"\exp",
)
log = row(
    "log(x)",
    "the natural logarithm",
    pullback=lambda d, y, x: (d / x,),
    latex=r"\log",
    domain=(0.0, math.inf),
)
sqrt = row(
    "sqrt(x)",
    "the square root",
    pullback=lambda d, y, x: (d / (2 * y),),
    domain=(0.0, math.inf),
)
rsqrt = row(
    "rsqrt(x)",
    "1 / sqrt(x)",
    cpp="real(1) / sqrt(x)",
    pullback=lambda d, y, x: (-d * y**3 / 2,),
    domain=(0.0, math.inf),
)
abs = row(
    "abs(x)",
    "the absolute value, with slope 0 at 0",
    pullback=lambda d, y, x: (d * sign.of(x),),
)
sign = row(
    "sign(x)",
    "-1, 0 or 1; no gradient passes",
    cpp="x > real(0) ? real(1) : (x < real(0) ? real(-1) : real(0))",
    pullback=lambda d, y, x: (None,),
)
square = row(
    "square(x)",
    "x * x",
    cpp="x * x",
    pullback=lambda d, y, x: (2 * d * x,),
)
reciprocal = row(
    "reciprocal(x)",
    "1 / x",
    cpp="real(1) / x",
    pullback=lambda d, y, x: (-d * y**2,),
)
sin = row(
    "sin(x)",
    "the sine of x radians",
    pullback=lambda d, y, x: (d * cos.of(x),),
    latex=r"\sin",
)
cos = row(
    "cos(x)",
    "the cosine of x radians",
    pullback=lambda d, y, x: (-d * sin.of(x),),
    latex=r"\cos",
)
erf = row(
    "erf(x)",
    "the Gauss error function",
    pullback=lambda d, y, x: (d * (2 / math.sqrt(math.pi)) * exp.of(-(x**2)),),
)
