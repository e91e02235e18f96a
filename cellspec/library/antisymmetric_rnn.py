"""Chang et al., "AntisymmetricRNN: a dynamical system view on recurrent neural networks",
ICLR 2019.

The caller makes R antisymmetric, for example as W - W.mT. The cell subtracts the paper's diffusion
gamma, which the paper puts into that matrix.
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
