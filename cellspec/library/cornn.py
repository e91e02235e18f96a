"""Rusch & Mishra, "Coupled oscillatory recurrent neural network (coRNN): an accurate and (gradient)
stable architecture for learning long time dependencies", ICLR 2021, equation 3.

As in the authors' code, the old z damps and the new z moves y. The constants are the authors' for
sequential MNIST.
"""

from ..declare import Constant, Gate, State, constant, gate
from ..functions import tanh
from ..tracing.trace import cell


@cell
def cornn(
    y: State,
    z: State,
    *,
    g: Gate = gate(source=("y", "z")),
    dt: Constant = constant(0.042),
    gamma: Constant = constant(2.7),
    epsilon: Constant = constant(4.7),
):
    """Coupled oscillators with positions y and velocities z (Rusch & Mishra, 2021)."""
    z = z + dt * (tanh(g) - gamma * y - epsilon * z)
    y = y + dt * z
    return y, z
