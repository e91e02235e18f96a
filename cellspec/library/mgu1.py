"""Heck & Salem, "Simplified minimal gated unit variations for recurrent neural networks",
MWSCAS 2017: MGU1.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mgu1(n: Gate, h: State, *, f: Gate = gate(input=False)):
    """MGU whose gate reads the state and a bias (Heck & Salem, 2017)."""
    f = sigmoid(f)
    return (1 - f) * h + f * tanh(n(f * h))
