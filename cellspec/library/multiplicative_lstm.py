"""Krause et al., "Multiplicative LSTM for sequence modelling", arXiv:1609.07959, 2016: m takes the
place of the state in all gates. xLSTM's mLSTM is another cell.

As in the later versions of the paper, the candidate and the cell pass tanh.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def multiplicative_lstm(
    h: State,
    c: State,
    *,
    m_x: Gate = gate(recurrent=False, bias=False),
    m_h: Gate = gate(input=False, bias=False),
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
):
    """LSTM whose recurrent matrix the input chooses (Krause et al., 2016)."""
    m = m_x * m_h
    c = sigmoid(f(m)) * c + sigmoid(i(m)) * tanh(z(m))
    return sigmoid(o(m)) * tanh(c), c
