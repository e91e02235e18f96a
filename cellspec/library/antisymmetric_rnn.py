"""Chang et al., "AntisymmetricRNN: a dynamical system view on recurrent neural networks",
ICLR 2019.

R is the caller's to make antisymmetric, as W - W.mT of a free W. The paper's diffusion gamma,
which it writes into that matrix, is here.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import tanh
from ..tracing.trace import cell


@cell
def antisymmetric_rnn(
    g: Gate,
    h: State,
    epsilon: Constant = constant(0.1),
    gamma: Constant = constant(0.01),
):
    """Euler steps of size epsilon along a stable differential equation (Chang et al., 2019)."""
    return h + epsilon * tanh(g - gamma * h)
