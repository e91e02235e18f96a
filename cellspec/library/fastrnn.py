"""Kusupati et al., "FastGRNN: a fast, accurate, stable and tiny kilobyte sized gated recurrent
neural network", NeurIPS 2018.

In the paper all units share the scalars alpha and beta; here each unit has its own. As in the
authors' code, sigmoid keeps them between 0 and 1, and they start from -3 and 3.
"""

from ..declare import Gate, Param, State, param
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def fastrnn(g: Gate, h: State, alpha: Param = param(-3.0), beta: Param = param(3.0)):
    """Simple recurrent network with a weighted residual connection (Kusupati et al., 2018)."""
    return sigmoid(alpha) * tanh(g) + sigmoid(beta) * h
