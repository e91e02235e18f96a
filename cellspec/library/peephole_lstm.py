"""Gers, Schraudolph & Schmidhuber, "Learning precise timing with LSTM recurrent networks",
JMLR 3, 2002.

The squashing functions are tanh, as in Graves, "Generating sequences with recurrent neural
networks", arXiv:1308.0850, 2013, equations 7 to 11. The output gate reads the new cell state.
"""

from ..declare import Gate, Param, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def peephole_lstm(
    i: Gate, f: Gate, z: Gate, o: Gate, h: State, c: State, p_i: Param, p_f: Param, p_o: Param
):
    """LSTM whose gates see the cell state, one weight per unit (Gers et al., 2002)."""
    c = sigmoid(f + p_f * c) * c + sigmoid(i + p_i * c) * tanh(z)
    h = sigmoid(o + p_o * c) * tanh(c)
    return h, c
