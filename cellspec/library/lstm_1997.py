"""Hochreiter & Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997.

The functions are the paper's centered logistic functions: g(x) = 4 / (1 + exp(-x)) - 2, which is 2
tanh(x / 2), and h(x) = 2 / (1 + exp(-x)) - 1, which is tanh(x / 2).
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def lstm_1997(i: Gate, z: Gate, o: Gate, h: State, c: State):
    """Long short-term memory without a forget gate (Hochreiter & Schmidhuber, 1997)."""
    c = c + sigmoid(i) * 2 * tanh(z / 2)
    h = sigmoid(o) * tanh(c / 2)
    return h, c
