"""Laurent & von Brecht, "A recurrent neural network without chaos", ICLR 2017.

`w` is the paper's W x, which has no bias.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def cfn(theta: Gate, eta: Gate, h: State, *, w: Gate = gate(recurrent=False, bias=False)):
    """Chaos-free network: without input its state decays to zero (Laurent & von Brecht, 2017)."""
    return sigmoid(theta) * tanh(h) + sigmoid(eta) * tanh(w)
