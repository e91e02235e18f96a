"""Functions that leave a value and change its gradient."""

from __future__ import annotations

from .choices import clip
from .row import row

stop_gradient = row(
    "stop_gradient(x)",
    "x, through which no gradient passes",
    cpp="x",
    torch="x.detach()",
    pullback=lambda d, y, x: (None,),
    identity=True,
)
clip_gradient = row(
    "clip_gradient(x, bound)",
    "x, whose gradient is held between -bound and bound",
    cpp="x",
    torch="ClipGradient.apply(x, bound)",
    pullback=lambda d, y, x, bound: (clip.of(d, -bound, bound), None),
    linear=False,
    identity=True,
)
