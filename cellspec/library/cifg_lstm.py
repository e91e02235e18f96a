"""Greff et al., "LSTM: a search space odyssey", IEEE TNNLS 28(10), 2017: the variant CIFG.

The paper's variants start from an LSTM with peepholes; this cell has no peepholes.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def cifg_lstm(i: Gate, z: Gate, o: Gate, h: State, c: State):
    """LSTM with coupled input and forget gate, f = 1 - i (Greff et al., 2017)."""
    c = (1 - sigmoid(i)) * c + sigmoid(i) * tanh(z)
    h = sigmoid(o) * tanh(c)
    return h, c
