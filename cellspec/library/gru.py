"""Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014.

This is the form of torch and cuDNN: the reset gate multiplies the recurrent product, which has a
bias of its own.
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
