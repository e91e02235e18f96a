"""Hasani et al., "Liquid time-constant networks", AAAI 2021, equation 3 and algorithm 1.

The drive f is a gate: it reads the input and the state before the step, and is held over the six
unfoldings, where the paper computes it anew. It is a sigmoid, as in the authors' code. softplus
keeps tau positive.
"""

from ..declare import Constant, Gate, Param, State, constant, param
from ..functions import sigmoid, softplus
from ..tracing.repeat import repeat
from ..tracing.trace import cell


@cell
def ltc(
    g: Gate,
    x: State,
    tau: Param = param(0.5413),
    A: Param = param(1.0),
    dt: Constant = constant(1 / 6),
):
    """Neurons whose time constant follows their input (Hasani et al., 2021)."""
    f = sigmoid(g)
    return repeat(6, lambda x: (x + dt * f * A) / (1 + dt * (1 / softplus(tau) + f)), x)
