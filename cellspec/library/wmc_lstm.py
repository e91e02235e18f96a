"""Landi et al., "Working memory connections for LSTM", Neural Networks 144, 2021.

Input and forget gate read the old c, the output gate the new one, each through a matrix and tanh.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def wmc_lstm(
    h: State,
    c: State,
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    *,
    i_c: Gate = gate(input=False, bias=False),
    f_c: Gate = gate(input=False, bias=False),
    o_c: Gate = gate(input=False, bias=False),
):
    """LSTM whose gates see the cell state through matrices (Landi et al., 2021)."""
    i, f = sigmoid(i + tanh(i_c(c))), sigmoid(f + tanh(f_c(c)))
    c = f * c + i * tanh(z)
    return sigmoid(o + tanh(o_c(c))) * tanh(c), c
