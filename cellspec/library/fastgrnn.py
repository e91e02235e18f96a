"""Kusupati et al., "FastGRNN: a fast, accurate, stable and tiny kilobyte sized gated recurrent
neural network", NeurIPS 2018.

Gate and candidate share one W and one U, and differ only in their biases. In the paper all units
share the scalars zeta and nu; here each unit has its own. Their initial values and those of the
biases are from the authors' code, in which sigmoid keeps zeta and nu between 0 and 1.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def fastgrnn(
    h: State,
    *,
    g: Gate = gate(bias=False),
    b_z: Param = param(1.0),
    b_h: Param = param(1.0),
    zeta: Param = param(1.0),
    nu: Param = param(-4.0),
):
    """Gated network of one matrix for gate and candidate (Kusupati et al., 2018)."""
    z = sigmoid(g + b_z)
    return (sigmoid(zeta) * (1 - z) + sigmoid(nu)) * tanh(g + b_h) + z * h
