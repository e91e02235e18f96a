"""Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014, equations 5
to 8.

This is the form as published, and that of Keras with `reset_after=False`: the reset gate multiplies
the state, and the product comes after it. `gru` has the form of torch and cuDNN.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def gru_reset_first(r: Gate, z: Gate, n: Gate, h: State):
    """Gated recurrent unit that resets before the product (Cho et al., 2014)."""
    candidate = tanh(n(sigmoid(r) * h))
    return sigmoid(z) * h + (1 - sigmoid(z)) * candidate
