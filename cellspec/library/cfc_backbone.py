"""Hasani et al., "Closed-form continuous-time neural networks", Nature Machine Intelligence 4,
2022: the closed form, with a backbone of one layer and D units that f, g and h share.

`t` is the time since the last step. The backbone's activation is that of the authors' code, a
scaled tanh. For -f t the code has `time_a * t + time_b`, with a matrix each.
"""

from ..declare import Gate, Input, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def cfc_backbone(
    b: Gate,
    x: State,
    t: Input,
    *,
    f: Gate = gate(input=False),
    g: Gate = gate(input=False),
    h: Gate = gate(input=False),
):
    """Liquid neurons in closed form, behind a shared layer (Hasani et al., 2022)."""
    shared = 1.7159 * tanh(0.666 * b)
    early = sigmoid(-f(shared) * t)
    return early * tanh(g(shared)) + (1 - early) * tanh(h(shared))
