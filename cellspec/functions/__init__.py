"""The table of element-wise functions, one row per function.

A row has the function's value, in C++ that is legal CUDA too and in torch, and its pullback, which
uses the output where that is stable in float32. The rows are the public functions: `rnnc.sigmoid`
is a row, and a call of it on a gate or a state returns the expression.
"""

from __future__ import annotations

from ..elementwise import ElementwiseFunction
from .activations import elu, gelu, leaky_relu, logsigmoid, relu, sigmoid, silu, softplus, tanh
from .choices import clip, maximum, minimum, where
from .elementary import abs, cos, erf, exp, log, reciprocal, rsqrt, sign, sin, sqrt, square
from .gradients import clip_gradient, stop_gradient, with_gradient
from .pairs import atan2, lerp, pow
from .pieces import hardsigmoid, hardswish, hardtanh, relu6
from .smooth import mish, softsign
from .steps import ceil, floor, fmod, heaviside, remainder, round, trunc
from .transcendental import asinh, atan, cosh, exp2, expm1, log1p, log2, sinh, tan

# In the order in which generated code has them.
_ROWS = (
    sigmoid,
    tanh,
    relu,
    leaky_relu,
    elu,
    gelu,
    silu,
    softplus,
    logsigmoid,
    exp,
    log,
    sqrt,
    rsqrt,
    abs,
    sign,
    square,
    reciprocal,
    sin,
    cos,
    erf,
    maximum,
    minimum,
    clip,
    where,
    stop_gradient,
    clip_gradient,
    with_gradient,
    relu6,
    hardtanh,
    hardsigmoid,
    hardswish,
    softsign,
    mish,
    tan,
    atan,
    sinh,
    cosh,
    asinh,
    log1p,
    expm1,
    log2,
    exp2,
    heaviside,
    floor,
    ceil,
    trunc,
    round,
    fmod,
    remainder,
    pow,
    atan2,
    lerp,
)
#: All rows by name.
TABLE: dict[str, ElementwiseFunction] = {row.name: row for row in _ROWS}
