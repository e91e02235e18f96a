"""Rusch & Mishra, "UnICORNN: a recurrent model for learning very long time dependencies",
ICML 2021.

Symplectic Euler, as in the authors' code: the new velocity z moves the position y. The constants
are the authors' for permuted sequential MNIST.
"""

from ..declare import Constant, Gate, Param, State, constant, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def unicornn(
    y: State,
    z: State,
    c: Param,
    *,
    g: Gate = gate(recurrent="diagonal"),
    dt: Constant = constant(0.19),
    alpha: Constant = constant(30.65),
):
    """Undamped independent oscillators, each with a learned time step (Rusch & Mishra, 2021)."""
    z = z - dt * sigmoid(c) * (tanh(g) + alpha * y)
    y = y + dt * sigmoid(c) * z
    return y, z
