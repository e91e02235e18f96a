"""Hasani et al., "Closed-form continuous-time neural networks", Nature Machine Intelligence 4,
2022: the closed form, without the backbone that f, g and h share there.

`t` is the time since the last step. As in the authors' code, g and h pass tanh.
"""

from ..declare import Gate, Input, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def cfc(f: Gate, g: Gate, h: Gate, x: State, t: Input):
    """Liquid neurons in closed form, for steps of any length (Hasani et al., 2022)."""
    early = sigmoid(-f * t)
    return early * tanh(g) + (1 - early) * tanh(h)
