"""Functions that jump: steps, whole numbers and remainders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .choices import where
from .elementary import reciprocal
from .row import row

if TYPE_CHECKING:
    import sympy

heaviside = row(
    "heaviside(x)",
    "1 above 0, else 0; no gradient passes",
    cpp="x > real(0) ? real(1) : (x != x ? x : real(0))",
    # torch.heaviside gives 0 at NaN.
    torch="torch.where(x.isnan(), x, (x > 0).to(x.dtype)).detach()",
    pullback=lambda d, y, x: (None,),
    free_name=True,
)
floor = row(
    "floor(x)",
    "the largest whole number that is not above x; no gradient passes",
    pullback=lambda d, y, x: (None,),
    free_name=True,
)
ceil = row(
    "ceil(x)",
    "the smallest whole number that is not below x; no gradient passes",
    pullback=lambda d, y, x: (None,),
    free_name=True,
)
trunc = row(
    "trunc(x)",
    "x without its fraction; no gradient passes",
    pullback=lambda d, y, x: (None,),
    free_name=True,
)
round = row(
    "round(x)",
    "the nearest whole number, at a tie the even one; no gradient passes",
    pullback=lambda d, y, x: (None,),
    free_name=True,
)
fmod = row(
    "fmod(a, b)",
    "a - b * trunc(a / b), with the sign of a",
    divisor="b",
    pullback=lambda d, y, a, b: (d, -d * trunc.of(a / b)),
    free_name=True,
)


def _floored_quotient(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """floor(a / b) as torch's division by whole numbers has it: it jumps where `remainder` does.

    The quotient a / b may round up to a whole number that it does not reach.
    """
    import sympy

    rest = fmod.of(a, b)
    below = ((b > 0) & (rest < 0)) | ((b < 0) & (rest > 0))
    whole = round.of((a - rest) / b) - where.of(below, 1, 0)
    # As a function, so that the two quotients do not become products with one 1 / b.
    return where.of(sympy.Eq(b, 0), a * reciprocal.of(b), whole)


remainder = row(
    "remainder(a, b)",
    "a - b * floor(a / b), with the sign of b: a % b",
    cpp="[](real m, real n) { return m != real(0) && (m < real(0)) != (n < real(0)) ? m + n : m; }"
    "(fmod(a, b), b)",
    divisor="b",
    pullback=lambda d, y, a, b: (d, -d * _floored_quotient(a, b)),
    free_name=True,
)
