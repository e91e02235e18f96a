"""Heck & Salem, "Simplified minimal gated unit variations for recurrent neural networks",
MWSCAS 2017: MGU2.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mgu2(n: Gate, h: State, *, f: Gate = gate(input=False, bias=False)):
    """MGU whose gate reads the state alone (Heck & Salem, 2017)."""
    f = sigmoid(f)
    return (1 - f) * h + f * tanh(n(f * h))
