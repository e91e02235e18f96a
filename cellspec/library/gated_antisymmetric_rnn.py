"""Chang et al., "AntisymmetricRNN: a dynamical system view on recurrent neural networks",
ICLR 2019.

Gate and candidate share one recurrent product, `a`. The caller makes its R antisymmetric, for
example as W - W.mT. The cell subtracts the paper's diffusion gamma, which the paper puts into that
matrix.
"""

from ..declare import Constant, Gate, State, constant, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def gated_antisymmetric_rnn(
    h: State,
    *,
    z: Gate = gate(recurrent=False),
    n: Gate = gate(recurrent=False),
    a: Gate = gate(input=False, bias=False),
    epsilon: Constant = constant(0.1),
    gamma: Constant = constant(0.01),
):
    """AntisymmetricRNN with an input gate that shares its matrix (Chang et al., 2019)."""
    shared = a - gamma * h
    return h + epsilon * sigmoid(z + shared) * tanh(n + shared)
