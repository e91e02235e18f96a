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
    torch="WithGradient.apply(x.detach(), x, bound)",
    pullback=lambda d, y, x, bound: (clip.of(d, -bound, bound), None),
    linear=False,
    identity=True,
)
with_gradient = row(
    "with_gradient(value, of)",
    "the value of the first, with the gradient of the second",
    # Programs hold the value alone: see `codegen/gradient_only.py`.
    cpp="value",
    torch="WithGradient.apply(*torch.broadcast_tensors(value, of))",
    pullback=lambda d, y, value, of: (None, d),
    identity=True,
    free_name=True,
)
