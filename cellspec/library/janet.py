"""van der Westhuizen & Lasenby, "The unreasonable effectiveness of the forget gate",
arXiv:1804.04849, 2018.

The paper's cell state c is its output h.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def janet(s: Gate, c: Gate, h: State, beta: Constant = constant(1.0)):
    """LSTM with nothing but its forget gate (van der Westhuizen & Lasenby, 2018)."""
    return sigmoid(s) * h + (1 - sigmoid(s - beta)) * tanh(c)
