"""Jozefowicz, Zaremba & Sutskever, "An empirical exploration of recurrent network architectures",
ICML 2015: MUT3.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mut3(z: Gate, r: Gate, n: Gate, h: State):
    """The third of three architectures found by mutation (Jozefowicz et al., 2015)."""
    z = sigmoid(z(tanh(h)))
    return z * tanh(n(sigmoid(r) * h)) + (1 - z) * h
