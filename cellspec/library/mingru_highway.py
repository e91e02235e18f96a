"""Feng et al., "Were RNNs all we needed?", arXiv:2410.01201, 2024, inside of the connection of
Srivastava et al., "Highway networks", arXiv:1505.00387, 2015.

`x` is what the highway passes on: the layer's input, which has as many features as there are units.
"""

from ..declare import Gate, Input, State, gate
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def mingru_highway(
    y: State,
    h: State,
    x: Input,
    *,
    z: Gate = gate(recurrent=False),
    n: Gate = gate(recurrent=False),
    p: Gate = gate(recurrent=False),
):
    """Minimal GRU with a gate that lets the input pass (Feng et al., 2024)."""
    h = (1 - sigmoid(z)) * h + sigmoid(z) * n
    y = sigmoid(p) * h + (1 - sigmoid(p)) * x
    return y, h
