"""Rusch et al., "Long expressive memory for sequence modeling", ICLR 2022, equation 3.

The new y reads the new z, as in the paper and in the authors' code. torchrecurrent's cell reads the
old one.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def lem(
    step_z: Gate,
    step_y: Gate,
    n_z: Gate,
    n_y: Gate,
    y: State,
    z: State,
    dt: Constant = constant(1.0),
):
    """Long expressive memory: two states with learned time steps (Rusch et al., 2022)."""
    dt_z, dt_y = dt * sigmoid(step_z), dt * sigmoid(step_y)
    z = (1 - dt_z) * z + dt_z * tanh(n_z)
    y = (1 - dt_y) * y + dt_y * tanh(n_y(z))
    return y, z
