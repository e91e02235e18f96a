"""Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014.

In the form of torch and cuDNN: the reset gate acts on the recurrent product, whose bias is its own.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def gru(
    r: Gate, z: Gate, h: State, *, n: Gate = gate(recurrent=False), m: Gate = gate(input=False)
):
    """Gated recurrent unit (Cho et al., 2014)."""
    n = tanh(n + sigmoid(r) * m)
    return (1 - sigmoid(z)) * n + sigmoid(z) * h
