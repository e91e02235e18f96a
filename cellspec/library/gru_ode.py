"""De Brouwer et al., "GRU-ODE-Bayes: continuous modeling of sporadically-observed time series",
NeurIPS 2019, equations 2 and 3: one Euler step of GRU-ODE.

`dt` is the time that the step covers. The jump at an observation is an ordinary GRU.
"""

from ..declare import Gate, Input, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def gru_ode(r: Gate, z: Gate, g: Gate, h: State, dt: Input):
    """GRU in continuous time (De Brouwer et al., 2019)."""
    candidate = tanh(g(sigmoid(r) * h))
    return h + dt * (1 - sigmoid(z)) * (candidate - h)
