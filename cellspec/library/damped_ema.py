"""Ma et al., "Mega: moving average equipped gated attention", ICLR 2023.

A unit is one of the dimensions that the paper expands each feature into: beta, before the cell, and
eta, after it, are matrices. alpha and delta are sigmoids of the params, and so between 0 and 1.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def damped_ema(
    h: State,
    *,
    x: Gate = gate(recurrent=False, bias=False),
    alpha: Param = param(0.0),
    delta: Param = param(0.0),
):
    """Moving average that forgets less than it takes in (Ma et al., 2023)."""
    return sigmoid(alpha) * x + (1 - sigmoid(alpha) * sigmoid(delta)) * h
