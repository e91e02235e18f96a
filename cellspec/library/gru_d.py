"""Che et al., "Recurrent neural networks for multivariate time series with missing values",
Scientific Reports 8, 2018, equations 10 to 15.

The input is the paper's x with values filled in (equations 11 and 12), the mask m, and the times
delta since the last observations. `decay` reads delta, the other gates x and m: what they do not
read has weights of 0.
"""

from ..declare import Gate, State, gate
from ..functions import exp, relu, sigmoid, tanh
from ..tracing.trace import cell


@cell
def gru_d(z: Gate, r: Gate, n: Gate, h: State, *, decay: Gate = gate(recurrent=False)):
    """GRU whose state decays between observations (Che et al., 2018)."""
    kept = exp(-relu(decay)) * h
    z = sigmoid(z(kept))
    candidate = tanh(n(sigmoid(r(kept)) * kept))
    return (1 - z) * kept + z * candidate
