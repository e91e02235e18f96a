"""Krueger et al., "Zoneout: regularizing RNNs by randomly preserving hidden activations", ICLR
2017, equations 1 to 3 and section 3.2.

At each step a unit keeps its state with a probability, and the output gate reads the new cell state
before that choice. The constants are the paper's for characters of the Penn Treebank.
"""

from ..declare import Constant, Gate, Input, State, constant
from ..functions import sigmoid, tanh
from ..noise.distributions import bernoulli
from ..tracing.trace import cell


@cell
def zoneout_lstm(
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    h: State,
    c: State,
    *,
    keep_h: Input = bernoulli("p_h"),
    keep_c: Input = bernoulli("p_c"),
    p_h: Constant = constant(0.05),
    p_c: Constant = constant(0.5),
):
    """LSTM whose units keep their states at random (Krueger et al., 2017)."""
    new = sigmoid(f) * c + sigmoid(i) * tanh(z)
    h = keep_h * h + (1 - keep_h) * sigmoid(o) * tanh(new)
    return h, keep_c * c + (1 - keep_c) * new
