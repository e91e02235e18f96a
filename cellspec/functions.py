"""The table of element-wise functions, one row per function.

A row has the function's value, in C++ that is legal CUDA too and in torch, and its pullback, which
uses the output where that is stable in float32. The rows are the public functions: `rnnc.sigmoid`
is a row, and a call of it on a gate or a state returns the expression.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .elementwise import ElementwiseFunction

if TYPE_CHECKING:
    import sympy  # takes half a second to import, and only pullbacks need it

TABLE: dict[str, ElementwiseFunction] = {}

# Rows that pullbacks of earlier rows use.
where: ElementwiseFunction
exp: ElementwiseFunction
minimum: ElementwiseFunction
reciprocal: ElementwiseFunction
sign: ElementwiseFunction
cos: ElementwiseFunction


def _row(
    signature: str, doc: str, *, cpp: str = "", torch: str = "", latex: str = "", **more: Any
) -> ElementwiseFunction:
    """A row. If `cpp` or `torch` is empty, that language has a function of the same name."""
    name, _, rest = signature.rstrip(")").partition("(")
    arguments = [a.strip().partition("=") for a in rest.split(",")]
    names = tuple(a for a, _, _ in arguments)
    function = ElementwiseFunction(
        name=name,
        arguments=names,
        doc=doc,
        cpp=cpp,
        torch=torch or f"torch.{name}({', '.join(names)})",
        latex=latex or rf"\operatorname{{{name.replace('_', chr(92) + '_')}}}",
        defaults=tuple(float(v) for _, equals, v in arguments if equals),
        **more,
    )
    TABLE[name] = function
    return function


# A NaN argument gives NaN, as in torch, because of how the comparisons are written. Those in
# pullbacks give it the same slope as torch.

sigmoid = _row(
    "sigmoid(x)",
    "the logistic function 1 / (1 + exp(-x))",
    cpp="real(1) / (real(1) + exp(-x))",
    pullback=lambda d, y, x: (d * y * (1 - y),),
    latex=r"\sigma",
)
tanh = _row(
    "tanh(x)",
    "the hyperbolic tangent",
    pullback=lambda d, y, x: (d * (1 - y**2),),
    latex=r"\tanh",
)
relu = _row(
    "relu(x)",
    "max(x, 0), with slope 0 at 0",
    cpp="x < real(0) ? real(0) : x",
    pullback=lambda d, y, x: (where.of(x <= 0, 0, d),),
)
leaky_relu = _row(
    "leaky_relu(x, slope=0.01)",
    "x above 0, slope * x below",
    cpp="x > real(0) ? x : slope * x",
    torch="torch.where(x > 0, x, slope * x)",
    pullback=lambda d, y, x, slope: (where.of(x > 0, d, d * slope), where.of(x > 0, 0, d * x)),
)
elu = _row(
    "elu(x, alpha=1.0)",
    "x above 0, alpha * (exp(x) - 1) below (Clevert et al., 2016)",
    cpp="x > real(0) ? x : alpha * expm1(x)",
    # The inner `where` keeps the branch that is not taken finite; else autograd has 0 * inf.
    torch="torch.where(x <= 0, alpha * F.elu(torch.where(x <= 0, x, 0.0)), x)",
    pullback=lambda d, y, x, alpha: (
        # From x, because y + alpha has no correct digits when y is close to -alpha.
        where.of(x <= 0, d * alpha * exp.of(x), d),
        where.of(x <= 0, d * (exp.of(minimum.of(x, 0)) - 1), 0),
    ),
)
_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBE = 0.044715


def _gelu_pullback(d: sympy.Expr, y: sympy.Expr, x: sympy.Expr) -> tuple[sympy.Expr]:
    # x * s with s = sigmoid(2 z), which is accurate where 1 + tanh(z) is not.
    s = _logistic(2 * _GELU_SCALE * (x + _GELU_CUBE * x**3))
    inner = 2 * _GELU_SCALE * (1 + 3 * _GELU_CUBE * x**2)
    return (d * s * (1 + x * (1 - s) * inner),)


def _logistic(x: sympy.Expr) -> sympy.Expr:
    """A sigmoid as accurate as exp, for slopes that pass through zero and cancel digits."""
    return reciprocal.of(1 + exp.of(-x))


gelu = _row(
    "gelu(x)",
    "the Gaussian error linear unit in its tanh form (Hendrycks & Gimpel, 2016)",
    # x * sigmoid(2 z), because 1 + tanh(z) has no correct digits for z far below 0.
    cpp="x / (real(1) + exp(real(-1.5957691216057308) * (x + real(0.044715) * x * x * x)))",
    torch="F.gelu(x, approximate='tanh')",
    pullback=_gelu_pullback,
)
silu = _row(
    "silu(x)",
    "x * sigmoid(x)",
    cpp="x / (real(1) + exp(-x))",
    torch="F.silu(x)",
    pullback=lambda d, y, x: (d * _logistic(x) * (1 + x * (1 - _logistic(x))),),
)
softplus = _row(
    "softplus(x)",
    "log(1 + exp(x))",
    cpp="(x < real(0) ? real(0) : x) + log1p(exp(-abs(x)))",
    # F.softplus is linear above 20, which is visible in float64.
    torch="-F.logsigmoid(-x)",
    pullback=lambda d, y, x: (d * sigmoid.of(x),),
)
logsigmoid = _row(
    "logsigmoid(x)",
    "log(sigmoid(x))",
    cpp="(x > real(0) ? real(0) : x) - log1p(exp(-abs(x)))",
    torch="F.logsigmoid(x)",
    pullback=lambda d, y, x: (d * sigmoid.of(-x),),
    latex=r"\log\sigma",
)
exp = _row(
    "exp(x)",
    "the exponential function",
    pullback=lambda d, y, x: (d * y,),
    latex=r"\exp",
)
log = _row(
    "log(x)",
    "the natural logarithm",
    pullback=lambda d, y, x: (d / x,),
    latex=r"\log",
    domain=(0.0, math.inf),
)
sqrt = _row(
    "sqrt(x)",
    "the square root",
    pullback=lambda d, y, x: (d / (2 * y),),
    domain=(0.0, math.inf),
)
rsqrt = _row(
    "rsqrt(x)",
    "1 / sqrt(x)",
    cpp="real(1) / sqrt(x)",
    pullback=lambda d, y, x: (-d * y**3 / 2,),
    domain=(0.0, math.inf),
)
abs = _row(
    "abs(x)",
    "the absolute value, with slope 0 at 0",
    pullback=lambda d, y, x: (d * sign.of(x),),
)
sign = _row(
    "sign(x)",
    "-1, 0 or 1; no gradient passes",
    cpp="x > real(0) ? real(1) : (x < real(0) ? real(-1) : real(0))",
    pullback=lambda d, y, x: (None,),
)
square = _row(
    "square(x)",
    "x * x",
    cpp="x * x",
    pullback=lambda d, y, x: (2 * d * x,),
)
reciprocal = _row(
    "reciprocal(x)",
    "1 / x",
    cpp="real(1) / x",
    pullback=lambda d, y, x: (-d * y**2,),
)
sin = _row(
    "sin(x)",
    "the sine of x radians",
    pullback=lambda d, y, x: (d * cos.of(x),),
    latex=r"\sin",
)
cos = _row(
    "cos(x)",
    "the cosine of x radians",
    pullback=lambda d, y, x: (-d * sin.of(x),),
    latex=r"\cos",
)
erf = _row(
    "erf(x)",
    "the Gauss error function",
    pullback=lambda d, y, x: (d * (2 / math.sqrt(math.pi)) * exp.of(-(x**2)),),
)


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


maximum = _row(
    "maximum(a, b)",
    "the larger of two; at a tie each gets half the gradient",
    cpp="(a > b || a != a) ? a : b",
    pullback=lambda d, y, a, b: _extremum_pullback(d, a, b, a < b, b < a),
    latex=r"\max",
)
minimum = _row(
    "minimum(a, b)",
    "the smaller of two; at a tie each gets half the gradient",
    cpp="(a < b || a != a) ? a : b",
    pullback=lambda d, y, a, b: _extremum_pullback(d, a, b, a > b, b > a),
    latex=r"\min",
)
clip = _row(
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
where = _row(
    "where(condition, a, b)",
    "a where the condition holds, else b",
    cpp="condition ? a : b",
    pullback=lambda d, y, condition, a, b: (
        None,
        where.of(condition, d, 0),
        where.of(condition, 0, d),
    ),
)
stop_gradient = _row(
    "stop_gradient(x)",
    "x, through which no gradient passes",
    cpp="x",
    torch="x.detach()",
    pullback=lambda d, y, x: (None,),
    identity=True,
)
clip_gradient = _row(
    "clip_gradient(x, bound)",
    "x, whose gradient is held between -bound and bound",
    cpp="x",
    torch="ClipGradient.apply(x, bound)",
    pullback=lambda d, y, x, bound: (clip.of(d, -bound, bound), None),
    linear=False,
    identity=True,
)
with_gradient = _row(
    "with_gradient(value, of)",
    "the value of the first, with the gradient of the second",
    # Programs hold the value alone: see `codegen/gradient_only.py`.
    cpp="value",
    torch="WithGradient.apply(*torch.broadcast_tensors(value, of))",
    pullback=lambda d, y, value, of: (None, d),
    identity=True,
)
