"""Activations of straight pieces, with the slope of torch where two pieces meet."""

from __future__ import annotations

from .choices import where
from .row import row

relu6 = row(
    "relu6(x)",
    "x held between 0 and 6, with slope 0 at both",
    cpp="x < real(0) ? real(0) : (x > real(6) ? real(6) : x)",
    torch="F.relu6(x)",
    pullback=lambda d, y, x: (where.of((x <= 0) | (x >= 6), 0, d),),
    free_name=True,
)
hardtanh = row(
    "hardtanh(x)",
    "x held between -1 and 1, with slope 0 at both",
    cpp="x < real(-1) ? real(-1) : (x > real(1) ? real(1) : x)",
    torch="F.hardtanh(x)",
    pullback=lambda d, y, x: (where.of((x <= -1) | (x >= 1), 0, d),),
    free_name=True,
)
hardsigmoid = row(
    "hardsigmoid(x)",
    "x / 6 + 1 / 2 held between 0 and 1, with slope 0 at both",
    cpp="(x < real(-3) ? real(0) : (x > real(3) ? real(6) : x + real(3))) / real(6)",
    # The slope of torch's own is 1 / 6 in float32, also in float64.
    torch="torch.where((x > -3) & (x < 3), (x + 3) / 6, F.hardsigmoid(x).detach())",
    pullback=lambda d, y, x: (where.of((x > -3) & (x < 3), d / 6, 0),),
    free_name=True,
)
# Where it is selected; else a number, so that no slope of what is not selected is NaN.
_INSIDE = "torch.where(x.abs() < 3, x, 0.0)"
hardswish = row(
    "hardswish(x)",
    "x * hardsigmoid(x), with slope 0 at -3 and 1 at 3 (Howard et al., 2019)",
    # The quotient first, because 6 * x overflows before the result does.
    cpp="x * ((x < real(-3) ? real(0) : (x > real(3) ? real(6) : x + real(3))) / real(6))",
    # On a GPU, torch multiplies by a sixth in float32, also in float64.
    torch=f"torch.where(x <= -3, x * 0.0,"
    f" torch.where(x < 3, {_INSIDE} * (({_INSIDE} + 3) / 6), x))",
    # 2 * x + 3 is exactly 0 at -1.5, also where a quotient is rounded.
    pullback=lambda d, y, x: (where.of(x <= -3, 0, where.of(x < 3, d * (2 * x + 3) / 6, d)),),
    free_name=True,
)
