"""Bradbury et al., "Quasi-recurrent neural networks", ICLR 2017: fo-pooling.

The paper's convolution over a window of inputs belongs in front of the cell.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def qrnn(
    h: State,
    c: State,
    *,
    z: Gate = gate(recurrent=False),
    f: Gate = gate(recurrent=False),
    o: Gate = gate(recurrent=False),
):
    """Gated pooling over time of values that depend only on the input (Bradbury et al., 2017)."""
    c = sigmoid(f) * c + (1 - sigmoid(f)) * tanh(z)
    h = sigmoid(o) * c
    return h, c
