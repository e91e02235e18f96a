"""Activations: sigmoid, tanh, and the units that are nearly linear above 0."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .choices import minimum, where
from .elementary import exp, reciprocal
from .row import row

if TYPE_CHECKING:
    import sympy  # takes half a second to import, and only pullbacks need it

# A NaN argument gives NaN, as in torch, because of how the comparisons are written. Those in
# pullbacks give it the same slope as torch.

sigmoid = row(
    "sigmoid(x)",
    "the logistic function 1 / (1 + exp(-x))",
    cpp="real(1) / (real(1) + exp(-x))",
    pullback=lambda d, y, x: (d * y * (1 - y),),
    latex=r"\sigma",
)
tanh = row(
    "tanh(x)",
    "the hyperbolic tangent",
    pullback=lambda d, y, x: (d * (1 - y**2),),
    latex=r"\tanh",
)
relu = row(
    "relu(x)",
    "max(x, 0), with slope 0 at 0",
    cpp="x < real(0) ? real(0) : x",
    pullback=lambda d, y, x: (where.of(x <= 0, 0, d),),
)
leaky_relu = row(
    "leaky_relu(x, slope=0.01)",
    "x above 0, slope * x below",
    cpp="x > real(0) ? x : slope * x",
    torch="torch.where(x > 0, x, slope * x)",
    pullback=lambda d, y, x, slope: (where.of(x > 0, d, d * slope), where.of(x > 0, 0, d * x)),
)
elu = row(
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


gelu = row(
    "gelu(x)",
    "the Gaussian error linear unit in its tanh form (Hendrycks & Gimpel, 2016)",
    # x * sigmoid(2 z), because 1 + tanh(z) has no correct digits for z far below 0.
    cpp="x / (real(1) + exp(real(-1.5957691216057308) * (x + real(0.044715) * x * x * x)))",
    torch="F.gelu(x, approximate='tanh')",
    pullback=_gelu_pullback,
)
silu = row(
    "silu(x)",
    "x * sigmoid(x)",
    cpp="x / (real(1) + exp(-x))",
    torch="F.silu(x)",
    pullback=lambda d, y, x: (d * _logistic(x) * (1 + x * (1 - _logistic(x))),),
)
softplus = row(
    "softplus(x)",
    "log(1 + exp(x))",
    cpp="(x < real(0) ? real(0) : x) + log1p(exp(-abs(x)))",
    # F.softplus is linear above 20, which is visible in float64.
    torch="-F.logsigmoid(-x)",
    pullback=lambda d, y, x: (d * sigmoid.of(x),),
)
logsigmoid = row(
    "logsigmoid(x)",
    "log(sigmoid(x))",
    cpp="(x > real(0) ? real(0) : x) - log1p(exp(-abs(x)))",
    torch="F.logsigmoid(x)",
    pullback=lambda d, y, x: (d * sigmoid.of(-x),),
    latex=r"\log\sigma",
)
