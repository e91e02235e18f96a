"""Hochreiter & Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997.

It has the forget gate of Gers, Schmidhuber & Cummins, "Learning to forget", 2000. The gates are in
torch's order, so that weights can be exchanged: input, forget, cell input, output.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def lstm(i: Gate, f: Gate, z: Gate, o: Gate, h: State, c: State):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997)."""
    c = sigmoid(f) * c + sigmoid(i) * tanh(z)
    h = sigmoid(o) * tanh(c)
    return h, c
